// "How it works": play → skills → weights → act, drawn with this library's own numbers and what is in its mind right now.

const WIDTH = 180; // of a drawing, in its own units
const HEIGHT = 84;
const GAP = 2;
// Where free play led to: there and back, for nothing in particular.
const WANDERING = "M14 62C30 20 44 16 58 34S60 76 84 68 92 22 112 18 140 30 132 50 108 74 136 72 164 60 166 40";

export class How {
  constructor(world, list) {
    const numbers = { free_steps: world.free_steps, features: world.features.length, bins: world.bins };
    numbers.skills = numbers.features * numbers.bins;
    list.querySelectorAll("[data-number]").forEach((one) => {
      one.textContent = numbers[one.dataset.number].toLocaleString("en");
    });
    const drawings = [drawing(), ...[1, 2, 3].map(() => drawing())];
    drawings[0].append(svg("path", { d: WANDERING, class: "way" }), svg("circle", { cx: 166, cy: 40, r: 6, class: "self" }));
    this.cells = drawings.slice(1).map((one) => cells(one, numbers.features, numbers.bins));
    [...list.children].forEach((step, i) => step.prepend(drawings[i]));
  }

  /** As the grid of its mind: bins where φ is 1, weights, the thought of now, and what every skill is worth. */
  show({ bins, weights, thought, numbers }) {
    const [skills, wanted, worth] = this.cells;
    const values = numbers?.flat() ?? [];
    const largest = Math.max(1e-6, ...values);
    const most = Math.max(1e-6, ...weights.flat());
    const each = bins.flatMap((bin, i) => weights[i].map((weight, j) => ({ here: bin === j, weight, i, j })));
    each.forEach(({ here, weight, i, j }, n) => {
      skills[n].classList.toggle("here", here);
      fill(wanted[n], weight / most);
      fill(worth[n], (values[n] ?? 0) / largest);
      worth[n].classList.toggle("followed", thought?.feature === i && thought?.bin === j);
    });
  }
}

function drawing() {
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" });
}

/** A grid of features and their bins, over a ground that keeps empty ones visible. */
function cells(drawing, rows, columns) {
  const [width, height] = [(WIDTH + GAP) / columns, (HEIGHT + GAP) / rows];
  const all = [...Array(rows * columns).keys()].map((n) => {
    const at = { x: (n % columns) * width, y: Math.floor(n / columns) * height, rx: 2 };
    const size = { width: width - GAP, height: Math.max(1, height - GAP) };
    drawing.append(svg("rect", { ...at, ...size, class: "ground" }));
    return svg("rect", { ...at, ...size, class: "cell" });
  });
  drawing.append(...all);
  return all;
}

function fill(cell, share) {
  cell.style.fillOpacity = Math.min(1, Math.max(0, share));
}

function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  return made;
}
