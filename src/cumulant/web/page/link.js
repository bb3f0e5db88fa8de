// An episode in the page's address: goal or plan, seed, start where it is not the seed's own, stage where it is not a
// plan's first, weights where they were taught, and the goals that were pursued before, where that is how it began.

export function read() {
  const query = new URLSearchParams(location.search);
  const whole = (name, most) => Math.min(Math.max(0, Math.trunc(Number(query.get(name)) || 0)), most);
  return {
    phrase: query.get("goal") ?? "",
    seed: whole("seed", 2 ** 32 - 1),
    stage: whole("stage", 7),
    start: query.has("start") ? numbersIn(query.get("start")) : null,
    weights: query.has("w") ? weightsIn(query.get("w")) : null,
    after: query.getAll("was").map(leg),
  };
}

/** A goal that was pursued before, "12:0::lamp on": for how many steps, from which stage on, by what weights. */
function leg(text) {
  const [, steps, stage, w, phrase] = /^(\d+):(\d+):([^:]*):(.*)$/s.exec(text) ?? [null, 0, 0, "", text];
  return { phrase, weights: w ? weightsIn(w) : null, stage: Number(stage), steps: Number(steps) };
}

function numbersIn(text) {
  return text.split(",").map(Number);
}

function weightsIn(text) {
  return text.split(";").map(numbersIn);
}

function spelt(weights) {
  return weights.map((row) => row.join(",")).join(";");
}

export function write({ phrase, seed, start, stage, weights, after }) {
  const query = new URLSearchParams({ goal: phrase, seed });
  if (start) query.set("start", start.map(shortest).join(","));
  if (stage) query.set("stage", stage);
  if (weights) query.set("w", spelt(weights));
  after.forEach((was) => query.append("was", [was.steps, was.stage, was.weights ? spelt(was.weights) : "", was.phrase].join(":")));
  history.replaceState(null, "", `?${query.toString().replace(/%2C|%3A|%3B/g, decodeURIComponent)}`);
}

/** The fewest digits that still mean the same number of 32 bits: the world computes in those. */
function shortest(x) {
  for (let digits = 1; digits < 9; digits++) {
    const text = Number(x.toPrecision(digits));
    if (Math.fround(text) === Math.fround(x)) return text;
  }
  return x;
}
