// A plan's stages as a list that is ticked off; and what of a stage is drawn in the arena.

import { element } from "./mind.js";

/** The stages of a plan; nothing for a plain goal. `now` is the current one, `violation` what broke the plan in it. */
export function showStages(list, stages, now, violation = "") {
  list.hidden = stages.length < 2 && !stages[0]?.avoid.length;
  if (list.hidden) return list.replaceChildren();
  list.replaceChildren(...stages.map((stage, i) => {
    const state = i < now ? "done" : i > now ? "later" : violation ? "broken" : "current";
    const said = { done: " – reached", later: " – later", current: " – now", broken: `failed: ${violation}` }[state];
    const step = element("span", { className: "step", ariaHidden: "true" }, { done: "✓", broken: "✗" }[state] ?? `${i + 1}`);
    const note = element("span", { className: state === "broken" ? "why" : "hidden" }, said);
    const item = element("li", { className: state }, step, element("span", {}, stage.canonical, note));
    if (i === now) item.ariaCurrent = "step";
    return item;
  }));
}

/** What the arena shows of a stage: its clauses, whether each is pursued or the only one, and what is to be avoided. */
export function wishOf({ stages, bins }, stage, pursued) {
  const { clauses, avoid } = stages[Math.min(stage, stages.length - 1)];
  const shown = clauses.map((clause, i) => {
    const wishes = clause.filter((wish) => !avoid.some((denied) => opposite(wish, denied, bins)));
    return { clause: wishes, pursued: clauses.length === 1 || i === pursued };
  });
  return { clauses: shown, avoid, bins };
}

/** Whether a condition says no more than that what is hatched anyway is to be avoided. */
function opposite(wish, denied, bins) {
  const [{ feature, allowed }] = denied;
  const same = denied.length === 1 && feature === wish.feature;
  return same && allowed.length + wish.allowed.length === bins; // a goal lies outside, so they share no bin
}
