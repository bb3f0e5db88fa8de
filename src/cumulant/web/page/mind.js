// What the agent has in mind: the followed skill, the goal's clauses, and the d × m grid of φ, w and Q.

import { decimals } from "./numbers.js";

/** A feature such as "square_x": its sprite's mark, if it is a sprite's, its name, and an arrow along its axis. */
export function described(world, feature) {
  const [, thing, axis] = /^(.+)_([xy])$/.exec(feature) ?? [null, feature, ""];
  const arrow = { x: "↔", y: "↕" }[axis] ?? "";
  return { mark: swatch(world.sprites.find((one) => one.name === thing)), name: thing.replaceAll("_", " "), arrow };
}

/** Whether condition i holds, of which the bits of a number tell; there may be more of them than 32. */
export function holds(bits, i) {
  return Math.floor((bits ?? 0) / 2 ** i) % 2 === 1;
}

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** A coloured mark for a sprite, in its shape's colour; nothing, where there is none. */
export function swatch(sprite) {
  if (!sprite) return "";
  const mark = element("span", { className: sprite.outline.length ? "swatch" : "swatch round" });
  mark.style.background = sprite.colour;
  mark.classList.toggle("eye", sprite.name === "agent");
  return mark;
}

const FINE = 6; // bins, from which on a cell is too narrow for words

export class Grid {
  constructor(table, world, caption) {
    this.world = world;
    table.classList.toggle("fine", world.bins >= FINE);
    this.cells = world.bin_names.map((names) => names.map(cell));
    const rows = world.features.map((feature, i) => {
      const { mark, name, arrow } = described(world, feature);
      const head = element("th", { scope: "row", title: name }, mark, `${name} ${arrow}`);
      return element("tr", {}, head, ...this.cells[i].map((one) => one.cell));
    });
    const columns = element("colgroup", {}, element("col", { className: "names" }));
    table.replaceChildren(element("caption", { className: "hidden" }, caption), columns, element("tbody", {}, ...rows));
  }

  /** Bins where φ is 1, weights [d][m], a thought; the numbers are the thought's values if no others are given. */
  show({ bins = null, weights = null, thought = null, numbers = thought?.values }) {
    const most = Math.max(1e-6, ...(weights ?? []).flat());
    const largest = Math.max(1e-6, ...(numbers ?? []).flat());
    this.cells.forEach((row, i) => row.forEach(({ cell, number, bar }, j) => {
      const share = weights ? Math.max(0, weights[i][j]) / most : 0;
      cell.classList.toggle("here", bins?.[i] === j);
      cell.classList.toggle("followed", thought?.feature === i && thought?.bin === j);
      cell.classList.toggle("wanted", share > 0.02);
      cell.style.setProperty("--w", share);
      number.textContent = numbers ? decimals(numbers[i][j], 2) : "";
      cell.title = `${this.world.bin_names[i][j]} ${number.textContent}`.trim();
      bar.style.width = `${(100 * Math.max(0, numbers?.[i][j] ?? 0)) / largest}%`;
    }));
  }
}

function cell(name) {
  const number = element("span", { className: "number" });
  const bar = element("span", { className: "bar" });
  const word = element("span", { className: "word" }, name);
  return { cell: element("td", {}, word, number, bar), number, bar };
}

/** The goal as alternatives of conditions; `met` are bits, one number a clause. */
export function showClauses(box, world, clauses, met, followed) {
  const lists = clauses.map((clause, c) => {
    const items = clause.map((condition, i) => {
      const done = holds(met?.[c], i);
      const sprite = world.sprites.find((one) => one.name === condition.sprite);
      const said = element("span", { className: "hidden" }, done ? " – reached" : " – not yet");
      return element("li", { className: done ? "done" : "" }, swatch(sprite), `${condition.sprite} ${condition.words}`, said);
    });
    if (!items.length) items.push(element("li", { className: "done" }, "anything"));
    return element("ul", { className: c === followed && clauses.length > 1 ? "current" : "" }, ...items);
  });
  const parts = lists.slice(0, 8).flatMap((list, i) => (i ? [element("span", { className: "or" }, "or"), list] : [list]));
  if (lists.length > 8) parts.push(element("span", { className: "or" }, `or ${lists.length - 8} more`));
  box.replaceChildren(...parts);
}
