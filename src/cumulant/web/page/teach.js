// Teach by reward: paint a region for a sprite, or choose bands of features. What is sent is the region as a phrase, of
// which only rewards are used.

import { call } from "./api.js";
import { element, Grid, swatch } from "./mind.js";

const MOST = 12; // cells a side: more are too small for a finger
const PAUSE = 450; // milliseconds between two regressions, to see w change
const MOVES = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

export class Teach {
  /** `region` is what pays: a painting or bands, with a phrase that is empty if nothing is chosen. */
  constructor(world, region, { lesson, table }) {
    Object.assign(this, { region, lesson });
    this.grid = new Grid(table, world, "Weights learnt from reward");
    this.grid.show({});
  }

  get phrase() {
    return this.region.phrase;
  }

  clear() {
    this.region.clear();
  }

  /** Learn w from rewards; returns it, having shown how it came about. */
  async learn(seed) {
    const { lessons } = await call("teach", { phrase: this.phrase, seed });
    for (const { steps, rewarded, weights, model, sure } of lessons) {
      const reading = rewarded ? `: a ${model}, ${Math.floor(100 * sure)} % sure` : "";
      this.lesson.textContent = `${steps} labelled steps, ${rewarded} of them rewarded${reading}`;
      this.grid.show({ weights, numbers: weights });
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    return lessons.at(-1).weights;
  }
}

/** Some regions of some features, as buttons along their bars: a feature without any may be anywhere. */
export class Bands {
  constructor(world, box) {
    this.hint = "Choose a band first.";
    this.rows = world.bars.map(({ name, regions }) => ({ name, buttons: regions.map((region) => band(name, region)) }));
    box.append(...this.rows.map(({ name, buttons }) => {
      const row = element("div", { className: "choices" }, ...buttons);
      return element("div", { className: "band-row" }, element("span", { className: "name", ariaHidden: "true" }, name), row);
    }));
  }

  get phrase() {
    const said = this.rows.map(({ name, buttons }) => {
      const chosen = buttons.flatMap((button, i) => (button.painted ? [i + 1] : []));
      return chosen.length ? `${name} ${chosen.join(",")}/${buttons.length}` : "";
    });
    return said.filter(Boolean).join(" and ");
  }

  clear() {
    this.rows.forEach(({ buttons }) => buttons.forEach((button) => set(button, false)));
  }
}

/** A region of the arena for one sprite. */
export class Painting {
  constructor(world, { sprites, paint }) {
    const side = Math.min(world.bins, MOST); // as fine as the library can tell
    Object.assign(this, { paint, sprites, side, buttons: [], brush: true, hint: "Paint a region first." });
    paint.style.setProperty("--cells", side);
    sprites.append(...world.sprites.slice().reverse().map((sprite, i) => choice(sprite, i === world.sprites.length - 2)));
    for (let y = side - 1; y >= 0; y--) for (let x = 0; x < side; x++) paint.append(this.cell(x, y));
    this.buttons[0].tabIndex = 0;
    paint.addEventListener("pointermove", (event) => this.stroke(event));
  }

  get sprite() {
    return this.sprites.querySelector("input:checked").value;
  }

  /** The painted region in words, row by row; empty if nothing is painted. */
  get phrase() {
    const rows = [...Array(this.side).keys()].map((y) => [y, this.buttons.filter((one) => one.y === y && one.painted)]);
    const said = rows.filter(([, row]) => row.length).map(([y, row]) => {
      return `${this.sprite} x ${row.map((one) => one.x + 1).join(",")}/${this.side} y ${y + 1}/${this.side}`;
    });
    return said.join(" or ");
  }

  clear() {
    this.buttons.forEach((button) => set(button, false));
  }

  cell(x, y) {
    const button = element("button", { type: "button", tabIndex: -1, ariaLabel: `column ${x + 1}, row ${y + 1}` });
    Object.assign(button, { x, y });
    set(button, false);
    button.addEventListener("pointerdown", (event) => {
      button.releasePointerCapture?.(event.pointerId); // a finger, too, may paint on over other cells
      set(button, (this.brush = !button.painted));
    });
    button.addEventListener("click", (event) => event.detail === 0 && set(button, !button.painted)); // by keyboard
    button.addEventListener("keydown", (event) => this.move(event, button));
    this.buttons.push(button);
    return button;
  }

  stroke(event) {
    const under = event.buttons ? document.elementFromPoint(event.clientX, event.clientY) : null;
    if (this.buttons.includes(under)) set(under, this.brush);
  }

  move(event, from) {
    const [dx, dy] = MOVES[event.key] ?? [];
    const next = this.buttons.find((one) => one.x === from.x + dx && one.y === from.y + dy);
    if (!next) return;
    event.preventDefault();
    from.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

function set(button, painted) {
  button.painted = painted;
  button.ariaPressed = String(painted);
}

function band(feature, region) {
  const button = element("button", { type: "button", ariaLabel: `${feature} ${region}` }, region);
  set(button, false);
  button.addEventListener("click", () => set(button, !button.painted));
  return button;
}

function choice(sprite, checked) {
  const input = element("input", { type: "radio", name: "taught", value: sprite.name, checked });
  return element("label", {}, input, swatch(sprite), sprite.name);
}
