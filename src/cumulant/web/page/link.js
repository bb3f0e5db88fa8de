// An episode in the page's address: goal or plan, seed, start where it is not the seed's own, stage where it is not a
// plan's first, and weights where they were taught.

export function read() {
  const query = new URLSearchParams(location.search);
  const whole = (name, most) => Math.min(Math.max(0, Math.trunc(Number(query.get(name)) || 0)), most);
  const numbers = (text) => text.split(",").map(Number);
  return {
    phrase: query.get("goal") ?? "",
    seed: whole("seed", 2 ** 32 - 1),
    stage: whole("stage", 7),
    start: query.has("start") ? numbers(query.get("start")) : null,
    weights: query.has("w") ? query.get("w").split(";").map(numbers) : null,
  };
}

export function write({ phrase, seed, start, stage, weights }) {
  const query = new URLSearchParams({ goal: phrase, seed });
  if (start) query.set("start", start.map(shortest).join(","));
  if (stage) query.set("stage", stage);
  if (weights) query.set("w", weights.map((row) => row.join(",")).join(";"));
  history.replaceState(null, "", `?${query.toString().replaceAll("%2C", ",").replaceAll("%3B", ";")}`);
}

/** The fewest digits that still mean the same number of 32 bits: the world computes in those. */
function shortest(x) {
  for (let digits = 1; digits < 9; digits++) {
    const text = Number(x.toPrecision(digits));
    if (Math.fround(text) === Math.fround(x)) return text;
  }
  return x;
}
