// A world without sprites: a bar for each feature, with the names of its regions, where it is and where it should be.

import { element, holds } from "./mind.js";
import { decimals } from "./numbers.js";

/** A value, given as a share of its feature's range, in the feature's own unit, "21.4 °C", or by its name: "on". */
export function told(bar, share) {
  if (bar.named) return regionOf(bar, share);
  const { low, high, unit } = bar;
  const digits = Math.min(6, Math.max(0, Math.ceil(2 - Math.log10(high - low)))); // a hundredth of the range
  return `${decimals(low + share * (high - low), digits)} ${unit}`.trim();
}

/** The name of the region that a share of a feature's range lies in. */
export function regionOf({ regions }, share) {
  return regions[Math.min(regions.length - 1, Math.floor(share * regions.length))];
}

export class Bars {
  constructor(world, className) {
    this.rows = world.bars.map((bar) => row(bar));
    this.element = element("ul", { className: `bars ${className}` }, ...this.rows.map((one) => one.item));
    this.key = "";
  }

  /** Features as shares of their ranges, and where a goal wants them, as `bandsOf` has it. */
  show(shares, bands) {
    this.rows.forEach((one, i) => one.move(shares[i]));
    const key = JSON.stringify(bands);
    if (key === this.key) return; // between two steps, nothing else changes
    this.key = key;
    this.rows.forEach((one, i) => one.wish(bands[i]));
  }
}

/**
 * Of every feature: the band that the goal of a stage wants it in, whether it is there (null: anywhere will do), what it
 * is to avoid, and for a plan the bands of all its stages.
 */
export function bandsOf(world, { stages, bins }, stage, pursued, met) {
  const now = Math.min(stage, stages.length - 1);
  const { clauses, avoid } = stages[now];
  const chosen = clauses.length === 1 ? 0 : pursued;
  return world.bars.map((_, feature) => {
    const place = clauses[chosen]?.findIndex((condition) => condition.feature === feature) ?? -1;
    const lanes = stages.length < 2 ? [] : stages.map((one, i) => {
      const state = i < stage ? "done" : i > now ? "later" : "current";
      return { state, bands: intervals(one.clauses, feature, bins) };
    });
    return {
      bands: place < 0 ? [] : intervals([clauses[chosen]], feature, bins),
      reached: place < 0 ? null : holds(met?.[chosen], place),
      avoid: intervals(avoid, feature, bins),
      lanes,
    };
  });
}

/** Where clauses allow a feature to be, as [from, to] in shares of its range; nothing, if they say nothing of it. */
function intervals(clauses, feature, bins) {
  const own = clauses.flatMap((clause) => clause.filter((condition) => condition.feature === feature));
  const allowed = [...new Set(own.flatMap((condition) => condition.allowed))].sort((a, b) => a - b);
  const found = [];
  for (const bin of allowed) {
    if (found.at(-1)?.[1] === bin) found.at(-1)[1] = bin + 1;
    else found.push([bin, bin + 1]);
  }
  return found.map(([from, to]) => [from / bins, to / bins]);
}

function row(bar) {
  const value = element("span", { className: "value" });
  const tick = element("span", { className: "tick" });
  const said = element("span", { className: "hidden" });
  const needle = element("span", { className: "needle" });
  const wishes = element("span", { className: "wishes" });
  const lanes = element("div", { className: "lanes", ariaHidden: "true" });
  const names = bar.regions.map((name) => element("span", {}, name));
  const cuts = bar.regions.slice(1).map((_, i) => at(element("span", { className: "cut" }), (i + 1) / bar.regions.length));
  const head = element("div", { className: "head" }, element("span", { className: "name" }, bar.name), value, tick, said);
  const track = element("div", { className: "track", ariaHidden: "true" }, wishes, ...cuts, needle);
  const regions = element("div", { className: "regions", ariaHidden: "true" }, ...names);
  const item = element("li", {}, head, track, regions, lanes);

  const move = (share) => {
    at(needle, share);
    value.textContent = told(bar, share);
    const here = bar.regions.indexOf(regionOf(bar, share));
    names.forEach((name, i) => name.classList.toggle("here", i === here));
    item.title = `${bar.name}: ${bar.regions[here]}`;
  };
  const wish = ({ bands, reached, avoid, lanes: all }) => {
    wishes.replaceChildren(...bands.map((band) => piece("band", band)), ...avoid.map((band) => piece("avoid", band)));
    item.classList.toggle("done", reached === true);
    tick.className = reached === null ? "tick none" : "tick";
    said.textContent = { null: "", true: " – reached", false: " – not yet" }[reached];
    const wanted = all.map((lane, i) => [lane, i]).filter(([lane]) => lane.bands.length);
    lanes.replaceChildren(...wanted.map(([{ state, bands: own }, i]) => {
      const pieces = element("span", { className: "pieces" }, ...own.map((band) => piece("band", band)));
      return element("span", { className: `lane ${state}` }, element("span", { className: "number" }, `${i + 1}`), pieces);
    }));
  };
  return { item, move, wish };
}

function piece(className, [from, to]) {
  const made = at(element("span", { className }), from);
  made.style.width = `${100 * (to - from)}%`;
  return made;
}

function at(made, share) {
  made.style.left = `${100 * share}%`;
  return made;
}
