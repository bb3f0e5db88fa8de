// A person's hands on the arena: the mouse or a finger moves sprites, the arrow keys play.

import { spriteAt } from "./arena.js";

const KEYS = { ArrowUp: 0, ArrowDown: 1, ArrowLeft: 2, ArrowRight: 3 };
const FINGER = 14; // pixels beside a sprite that still take it
const STILL = 3; // pixels that a hand may tremble without moving anything

/**
 * `grab()` is called when a sprite is taken and returns positions; `move(positions)` while it is held; then
 * `drop(positions)`, or `leave()` if it was not moved at all.
 */
export function dragging(canvas, world, { peek, grab, move, drop, leave }) {
  let held = -1;
  let finger = null; // or the mouse: others do not count meanwhile
  let from = [];
  let positions = [];

  const place = ({ clientX, clientY }) => {
    const box = canvas.getBoundingClientRect();
    return [(clientX - box.left) / box.width, 1 - (clientY - box.top) / box.height];
  };
  const under = (event, slack) => spriteNear(world, peek(), ...place(event), slack / canvas.clientWidth);
  canvas.addEventListener("pointerdown", (event) => {
    if (finger !== null) return;
    held = under(event, event.pointerType === "mouse" ? 0 : FINGER);
    if (held < 0) return;
    from = place(event);
    positions = [...grab()];
    finger = event.pointerId;
    canvas.setPointerCapture(finger);
    canvas.classList.add("held");
  });
  canvas.addEventListener("pointermove", (event) => {
    canvas.classList.toggle("over", under(event, 0) >= 0);
    if (event.pointerId !== finger) return;
    const [x, y] = place(event);
    if (Math.hypot(x - from[0], y - from[1]) * canvas.clientWidth < STILL) return;
    from = [Infinity, Infinity]; // from here on it moves with every pixel
    [positions[2 * held], positions[2 * held + 1]] = [x, y].map((at) => round(Math.min(1, Math.max(0, at))));
    move(positions);
  });
  const release = (event) => {
    if (event.pointerId !== finger) return;
    finger = null;
    canvas.classList.remove("held");
    if (from[0] === Infinity) drop(positions);
    else leave();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  // A finger on a sprite drags it; anywhere else it scrolls the page.
  const hold = (event) => under(event.touches[0], FINGER) >= 0 && event.preventDefault();
  canvas.addEventListener("touchstart", hold, { passive: false });
}

/** The sprite at a point, or else the nearest one that is hardly farther than `slack`; -1 for none. */
function spriteNear(world, positions, x, y, slack) {
  const exact = spriteAt(world, positions, x, y);
  if (exact >= 0 || !slack) return exact;
  const far = world.sprites.map((_, i) => Math.hypot(x - positions[2 * i], y - positions[2 * i + 1]));
  const nearest = far.indexOf(Math.min(...far));
  return far[nearest] <= (nearest ? world.half_extent : world.agent_radius) + slack ? nearest : -1;
}

/** Arrow keys take over, with Space held they drag; Enter hands back. */
export function playing(canvas, { act, hand }) {
  let space = false;
  canvas.addEventListener("keydown", (event) => {
    if (event.key in KEYS) act(KEYS[event.key] + (space ? 4 : 0));
    else if (event.key === " ") space = true;
    else if (event.key === "Enter") hand();
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("keyup", (event) => {
    if (event.key === " ") space = false;
  });
  canvas.addEventListener("blur", () => {
    space = false;
  });
}

function round(x) {
  return Math.round(1000 * x) / 1000;
}
