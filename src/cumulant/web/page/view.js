// How a state and a goal are shown: as sprites in an arena, or as bars.

import { draw } from "./arena.js";
import { Bars, bandsOf } from "./bars.js";
import { element } from "./mind.js";
import { wishOf } from "./stages.js";

/** A view of its own, small, with a name. */
export function smallView(world, label) {
  if (!world.sprites.length) return barsView(world, new Bars(world, "small"));
  return arenaView(world, element("canvas", { role: "img", ariaLabel: label }));
}

/** `show(positions, goal, stage, pursued, met)`: `pursued` is the clause in mind, `met` which conditions hold. */
export function arenaView(world, canvas) {
  const show = (positions, goal, stage, pursued) => draw(canvas, world, positions, wishOf(goal, stage, pursued));
  return { element: canvas, show };
}

export function barsView(world, bars) {
  const show = (positions, ...aim) => bars.show(positions, bandsOf(world, ...aim));
  return { element: bars.element, show };
}
