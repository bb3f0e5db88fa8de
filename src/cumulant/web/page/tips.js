// What the letters mean: a tooltip for the pointer, the keyboard and fingers alike.

import { element } from "./mind.js";

const MEANINGS = {
  φ: ["phi", "1 for the bin that a feature is in now, 0 for its other bins. These are the cumulants."],
  w: ["weights", "How much the goal wants each bin of each feature. They come from words, or are learnt from reward."],
  Q: ["value", "What a skill is worth for the goal, from here on: its row of Ψ, weighed by w and summed."],
  Ψ: ["psi", "For every skill, how much of each φ it will gather from here on; what comes sooner counts more."],
};
const LINGER = 150; // milliseconds for the pointer's way from a letter to its tooltip
const MARGIN = 8; // pixels

/** Give every `.term`, and whatever names a letter as its `data-term`, a tooltip. */
export function tips() {
  const tips = Object.fromEntries(Object.entries(MEANINGS).map(([letter, meaning]) => [letter, tip(letter, ...meaning)]));
  document.body.append(...Object.values(tips));
  let open = null; // { tip, owner }
  let leaving = 0;

  const hide = () => {
    clearTimeout(leaving);
    if (open) open.tip.hidden = true;
    open = null;
  };
  const show = (tip, owner) => {
    hide();
    open = { tip, owner };
    tip.hidden = false;
    place(open);
  };
  const leave = () => {
    leaving = setTimeout(hide, LINGER);
  };
  for (const tip of Object.values(tips)) {
    tip.addEventListener("pointerenter", () => clearTimeout(leaving));
    tip.addEventListener("pointerleave", leave);
  }
  for (const owner of document.querySelectorAll(".term, [data-term]")) {
    const tip = tips[owner.dataset.term ?? owner.textContent];
    owner.type = "button";
    owner.setAttribute("aria-describedby", tip.id);
    owner.addEventListener("pointerenter", ({ pointerType }) => pointerType === "mouse" && show(tip, owner));
    owner.addEventListener("pointerleave", leave);
    owner.addEventListener("focus", () => owner.matches(":focus-visible") && show(tip, owner));
    owner.addEventListener("blur", hide);
    if (owner.matches(".term")) owner.addEventListener("click", () => show(tip, owner)); // a finger's way
  }
  addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  addEventListener("scroll", () => open && place(open), { passive: true }); // having the focus may have scrolled there
  addEventListener("pointerdown", ({ target }) => target.closest(".term, .tip") || hide());
}

function tip(letter, name, meaning) {
  const title = element("strong", {}, `${letter}, ${name}`);
  return element("div", { id: `tip-${name}`, className: "tip", role: "tooltip", hidden: true }, title, meaning);
}

/** Under its owner, or above where there is no room; never beyond the window's sides. */
function place({ tip, owner }) {
  const beside = owner.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = tip;
  const below = beside.bottom + MARGIN;
  const left = beside.left + (beside.width - width) / 2;
  tip.style.left = `${Math.max(MARGIN, Math.min(left, document.documentElement.clientWidth - width - MARGIN))}px`;
  tip.style.top = `${below + height <= innerHeight ? below : beside.top - height - MARGIN}px`;
}
