// Draws states as the Python renderer does, and finds the sprite under a point. The arena is [0, 1]², y upwards.

const HATCH = 0.035; // from one line to the next
const CENTRE = [[1 / 65, "#20242e"], [1 / 110, "#fff"]]; // radius, colour
const EYE = [[1, "background"], [0.72, "agent"], [0.3, "background"]]; // share of the radius, colour

/** Fit a canvas's pixels to its size on the screen; returns its side in pixels. */
export function fit(canvas) {
  const side = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
  if (canvas.width !== side) canvas.width = canvas.height = side;
  return side;
}

/** Draw positions (x, y of each sprite), over where clauses want their sprites and, hatched, what is to be avoided. */
export function draw(canvas, world, positions, { clauses = [], avoid = [], bins = world.bins } = {}) {
  const side = fit(canvas);
  const pen = canvas.getContext("2d");
  pen.setTransform(side, 0, 0, -side, 0, side); // from here on, in the arena's units
  pen.fillStyle = world.background;
  pen.fillRect(0, 0, 1, 1);
  drawLines(pen, bins);
  clauses.forEach((wish) => world.sprites.forEach((sprite) => drawWish(pen, sprite, wish, bins)));
  avoid.forEach((one) => world.sprites.forEach((sprite) => drawForbidden(pen, sprite, one, bins)));
  for (let i = world.sprites.length - 1; i > 0; i--) {
    drawObject(pen, world.sprites[i], world.half_extent, positions[2 * i], positions[2 * i + 1]);
  }
  const colours = { agent: world.sprites[0].colour, background: world.background };
  for (const [share, name] of EYE) {
    disc(pen, positions[0], positions[1], share * world.agent_radius, colours[name]);
  }
}

/** The sprite that a click takes: the agent, or the topmost object; -1 for none. */
export function spriteAt(world, positions, x, y) {
  return world.sprites.findIndex((_, i) => {
    const reach = i === 0 ? world.agent_radius : world.half_extent;
    return Math.max(Math.abs(x - positions[2 * i]), Math.abs(y - positions[2 * i + 1])) <= reach;
  });
}

function drawLines(pen, bins) {
  pen.fillStyle = "rgb(255 255 255 / 9%)";
  for (let cut = 1; cut < bins; cut++) {
    pen.fillRect(cut / bins - 0.001, 0, 0.002, 1);
    pen.fillRect(0, cut / bins - 0.001, 1, 0.002);
  }
}

function drawWish(pen, sprite, { clause, pursued }, bins) {
  pen.fillStyle = sprite.colour;
  pen.globalAlpha = pursued ? 0.16 : 0.08;
  for (const [x, y] of cellsOf(sprite, clause, bins)) pen.fillRect(x / bins, y / bins, 1 / bins, 1 / bins);
  pen.globalAlpha = 1;
}

/** Hatch where a sprite must not go; if the clause names others, where it must not go while they are there. */
function drawForbidden(pen, sprite, clause, bins) {
  const cells = cellsOf(sprite, clause, bins);
  if (!cells.length) return;
  pen.save();
  pen.beginPath();
  for (const [x, y] of cells) pen.rect(x / bins, y / bins, 1 / bins, 1 / bins);
  pen.clip();
  pen.beginPath();
  for (let at = 0; at < 2; at += HATCH) {
    pen.moveTo(at - 1, 0);
    pen.lineTo(at, 1);
  }
  pen.strokeStyle = sprite.colour;
  pen.globalAlpha = 0.6;
  pen.lineWidth = HATCH / 6;
  pen.stroke();
  pen.restore();
}

/** The cells that a clause allows a sprite; none, if it says nothing of the sprite. */
function cellsOf(sprite, clause, bins) {
  const wishes = clause.filter((condition) => condition.sprite === sprite.name);
  if (!wishes.length) return [];
  const everywhere = [...Array(bins).keys()];
  const allowed = (axis) => wishes.find((wish) => wish.axis === axis)?.allowed ?? everywhere;
  return allowed("x").flatMap((x) => allowed("y").map((y) => [x, y]));
}

function drawObject(pen, sprite, extent, x, y) {
  if (sprite.outline.length) {
    pen.beginPath();
    sprite.outline.forEach(([cx, cy]) => pen.lineTo(x + extent * cx, y + extent * cy));
    pen.fillStyle = sprite.colour;
    pen.fill();
  } else {
    disc(pen, x, y, extent, sprite.colour);
  }
  CENTRE.forEach(([radius, colour]) => disc(pen, x, y, radius, colour)); // it alone counts
}

function disc(pen, x, y, radius, colour) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fillStyle = colour;
  pen.fill();
}
