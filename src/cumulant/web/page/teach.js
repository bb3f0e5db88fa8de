// Teach by reward: paint a region for a sprite, or choose bands of features. What is sent is the region as a phrase, of
// which only rewards are used.

import { call } from "./api.js";
import { told } from "./bars.js";
import { element, Grid, swatch } from "./mind.js";

const PAUSE = 450; // milliseconds between two regressions, to see w change
const REST = 150; // milliseconds without a stroke, after which a painting is put in words
const FINE = 12; // cells a side, beyond which they lie closer together
const NARROW = 4; // bands side by side, beyond which their names are set smaller
const MOVES = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

export class Teach {
  /** `region` is what pays: a painting or bands, with a phrase that is empty if nothing is chosen. */
  constructor(world, region, { lesson, table, painted }) {
    Object.assign(this, { region, lesson, painted, resting: 0, latest: 0 });
    this.grid = new Grid(table, world, "Weights learnt from reward");
    this.grid.show({});
    region.changed = () => {
      clearTimeout(this.resting);
      this.resting = setTimeout(() => this.tell(), REST);
    };
  }

  get phrase() {
    return this.region.phrase;
  }

  clear() {
    this.region.clear();
  }

  /** Say what is painted as a person would write it. */
  async tell() {
    const [mine, { phrase }] = [++this.latest, this];
    const said = phrase && (await call("parse", { phrase }).then(({ brief }) => `That is: ${brief}`, (error) => error.message));
    if (mine === this.latest) this.painted.textContent = said;
  }

  /** Learn w from rewards, and show how it comes about; returns it with the phrase, or null if no reward says anything. */
  async learn(seed, steps) {
    const { phrase } = this;
    this.lesson.textContent = `Collecting ${steps.toLocaleString("en")} labelled steps…`;
    this.grid.show({});
    const [{ brief }, { lessons, nothing }] = await Promise.all([
      call("parse", { phrase }),
      call("teach", { phrase, seed, steps }),
    ]);
    for (const { steps: taken, rewarded, weights, model, sure } of nothing ? [] : lessons) {
      const reading = rewarded ? `. As far as they tell: a ${model}, ${Math.floor(100 * sure)} % sure` : "";
      const counts = [taken, rewarded].map((steps) => steps.toLocaleString("en"));
      this.lesson.textContent = `${counts[0]} labelled steps, ${counts[1]} of them rewarded${reading}`;
      this.grid.show({ weights, numbers: weights });
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    if (nothing) this.lesson.textContent = `${nothing} Nothing was acted on.`;
    return { phrase: brief, weights: nothing ? null : lessons.at(-1).weights };
  }
}

/** Some bins of some features, as buttons along their bars: a feature without any may be anywhere. */
export class Bands {
  constructor(world, box) {
    Object.assign(this, { hint: "Choose a band first.", changed: () => {} });
    const toggle = (button) => this.set(button, !button.painted);
    this.rows = world.bars.map((bar) => ({ name: bar.name, buttons: bar.bins.map((_, i) => band(bar, i, toggle)) }));
    box.append(...this.rows.map(({ name, buttons }) => {
      const row = element("div", { className: buttons.length > NARROW ? "choices fine" : "choices" }, ...buttons);
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
    this.rows.forEach(({ buttons }) => buttons.forEach((button) => this.set(button, false)));
  }

  set(button, painted) {
    set(button, painted);
    this.changed();
  }
}

/** A region of the arena for one sprite, in the library's bins: no finer can it tell, and no coarser. */
export class Painting {
  constructor(world, { sprites, paint }) {
    const side = world.bins;
    Object.assign(this, { paint, sprites, side, buttons: [], hint: "Paint a region first.", changed: () => {} });
    Object.assign(this, { brush: true, last: null }); // whether a stroke paints or wipes, and where it was last
    paint.style.setProperty("--cells", side);
    paint.classList.toggle("fine", side > FINE);
    sprites.append(...world.sprites.slice().reverse().map((sprite, i) => choice(sprite, i === world.sprites.length - 2)));
    sprites.addEventListener("change", () => this.changed());
    for (let y = side - 1; y >= 0; y--) for (let x = 0; x < side; x++) paint.append(this.cell(x, y));
    this.buttons[0].tabIndex = 0;
    addEventListener("pointerdown", () => (this.last = null), { capture: true }); // a stroke begins on the pad
    paint.addEventListener("pointerdown", (event) => (this.last = [event.clientX, event.clientY]));
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
    this.buttons.forEach((button) => this.set(button, false));
  }

  set(button, painted) {
    if (button.painted === painted) return;
    set(button, painted);
    this.changed();
  }

  cell(x, y) {
    const button = element("button", { type: "button", tabIndex: -1, ariaLabel: `column ${x + 1}, row ${y + 1}` });
    Object.assign(button, { x, y });
    set(button, false);
    button.addEventListener("pointerdown", (event) => {
      if (!event.isPrimary) return;
      if (button.hasPointerCapture(event.pointerId)) button.releasePointerCapture(event.pointerId); // a finger's own
      this.set(button, (this.brush = !button.painted));
    });
    button.addEventListener("click", (event) => event.detail === 0 && this.set(button, !button.painted)); // by keyboard
    button.addEventListener("keydown", (event) => this.move(event, button));
    this.buttons.push(button);
    return button;
  }

  /** Paint all cells from the last point of a stroke to this one, however quick the hand is. */
  stroke(event) {
    if (!event.buttons || !event.isPrimary || !this.last) return;
    const [[x, y], cell] = [this.last, this.buttons[0].offsetWidth];
    const [dx, dy] = [event.clientX - x, event.clientY - y];
    const parts = Math.max(1, Math.ceil((2 * Math.max(Math.abs(dx), Math.abs(dy))) / cell));
    for (let i = 1; i <= parts; i++) {
      const under = document.elementFromPoint(x + (i / parts) * dx, y + (i / parts) * dy);
      if (this.buttons.includes(under)) this.set(under, this.brush);
    }
    this.last = [event.clientX, event.clientY];
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

function band(bar, i, toggle) {
  const [from, to] = [i, i + 1].map((edge) => told({ ...bar, named: false }, edge / bar.bins.length));
  const button = element("button", { type: "button", ariaLabel: `${bar.name} ${bar.bins[i]}` }, bar.bins[i]);
  if (!bar.named) button.title = `${from} to ${to}`;
  set(button, false);
  button.addEventListener("click", () => toggle(button));
  return button;
}

function choice(sprite, checked) {
  const input = element("input", { type: "radio", name: "taught", value: sprite.name, checked });
  return element("label", {}, input, swatch(sprite), sprite.name);
}
