// Heat maps of Ψ for one state and action: as learnt, by the Lemma, and as it comes out when every skill is played.

import { call } from "./api.js";
import { described, element } from "./mind.js";
import { decimals } from "./numbers.js";

const MAPS = { learnt: "Learnt", lemma: "The Lemma's value", played: "As played" };
const CELL = 14; // pixels, before the screen scales them

export class PsiView {
  constructor(world, { maps, action, note }) {
    Object.assign(this, { world, action, note, busy: false, wanted: null });
    this.names = world.features.flatMap((feature, i) => {
      return world.bin_names[i].map((bin) => `${feature.replace("_", " ")} ${bin}`);
    });
    action.append(...world.actions.map((name, i) => element("option", { value: i }, name)));
    this.canvases = Object.fromEntries(Object.keys(MAPS).map((name) => [name, this.map(name)]));
    this.figures = {};
    maps.append(...Object.entries(MAPS).map(([name, title]) => {
      const caption = element("figcaption", {}, title);
      return (this.figures[name] = element("figure", {}, caption, this.axis("columns"), this.axis("rows"), this.canvases[name]));
    }));
  }

  axis(direction) {
    const names = this.world.features.map((feature) => {
      const { mark, name, arrow } = described(this.world, feature);
      return element("span", { title: name }, mark, (mark && arrow) || `${name} ${arrow}`.trim());
    });
    return element("div", { className: `axis ${direction}`, ariaHidden: "true" }, ...names);
  }

  map(name) {
    const side = CELL * this.names.length;
    const canvas = element("canvas", { width: side, height: side, role: "img", ariaLabel: `${MAPS[name]}: heat map of Ψ` });
    const point = (event) => {
      const share = this.names.length / canvas.clientWidth;
      this.tell(Math.floor(event.offsetY * share), Math.floor(event.offsetX * share));
    };
    canvas.addEventListener("pointerdown", point); // a finger that taps does not move
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.summarise());
    return canvas;
  }

  /** Show a state, as the server is asked for it; while an answer is on its way, the newest wish waits. */
  async show(state) {
    this.wanted = state;
    if (this.busy) return;
    this.busy = true;
    while (this.wanted) {
      const request = { ...this.wanted, action: Number(this.action.value) };
      this.wanted = null;
      this.psi = await call("psi", request).catch(() => null);
      if (this.psi) Object.keys(MAPS).forEach((name) => this.paint(name));
      if (this.psi) this.summarise();
    }
    this.busy = false;
  }

  paint(name) {
    const canvas = this.canvases[name];
    const pen = canvas.getContext("2d");
    const [low, high, none] = ["--cold", "--hot", "--paper"].map((it) => getComputedStyle(canvas).getPropertyValue(it));
    const { bins } = this.world;
    this.psi[name].forEach((row, i) => row.forEach((value, j) => {
      pen.globalAlpha = 1;
      pen.fillStyle = value === null ? none : low;
      pen.fillRect(j * CELL, i * CELL, CELL, CELL);
      pen.globalAlpha = Math.min(1, Math.max(0, value ?? 0));
      pen.fillStyle = high;
      pen.fillRect(j * CELL, i * CELL, CELL, CELL);
    }));
    pen.globalAlpha = 1;
    pen.fillStyle = none;
    for (let cut = bins; cut < this.names.length; cut += bins) {
      pen.fillRect(cut * CELL - 1, 0, 2, canvas.height);
      pen.fillRect(0, cut * CELL - 1, canvas.width, 2);
    }
  }

  tell(row, column) {
    const values = Object.keys(MAPS).map((name) => [MAPS[name].toLowerCase(), this.psi?.[name][row]?.[column]]);
    const said = values.filter(([, value]) => Number.isFinite(value)).map(([name, value]) => `${name} ${decimals(value, 2)}`);
    if (said.length) this.note.textContent = `Skill ${this.names[row]}, cumulant ${this.names[column]}: ${said.join(", ")}.`;
  }

  summarise() {
    const miss = (name) => {
      const gaps = this.psi[name].flatMap((row, i) => {
        return row.flatMap((value, j) => (value === null ? [] : [Math.abs(value - this.psi.played[i][j])]));
      });
      return decimals(gaps.reduce((a, b) => a + b, 0) / gaps.length, 3);
    };
    if (!this.psi) return;
    const played = this.psi.played.flat().some((value) => value !== null);
    this.figures.played.hidden = !played;
    if (!played) return void (this.note.textContent = "Skills cannot be played from one state: what runs on the host has no copies.");
    this.note.textContent = `Mean distance from what was played: learnt ${miss("learnt")}, the Lemma ${miss("lemma")}.`;
  }
}
