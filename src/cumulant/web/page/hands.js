// A person's hands on the arena: the mouse moves sprites, the arrow keys play.

import { draw, spriteAt } from "./arena.js";

const KEYS = { ArrowUp: 0, ArrowDown: 1, ArrowLeft: 2, ArrowRight: 3 };

/** `grab()` is called when a sprite is taken and returns positions; `drop(positions)` when it is let go. */
export function dragging(canvas, world, { peek, grab, drop }) {
  let held = -1;
  let positions = [];

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height];
  };
  canvas.addEventListener("pointerdown", (event) => {
    held = spriteAt(world, peek(), ...place(event));
    if (held < 0) return;
    positions = [...grab()];
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("held");
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    canvas.classList.toggle("over", spriteAt(world, peek(), x, y) >= 0);
    if (held < 0) return;
    [positions[2 * held], positions[2 * held + 1]] = [x, y].map((at) => round(Math.min(1, Math.max(0, at))));
    draw(canvas, world, positions);
  });
  const release = () => {
    if (held < 0) return;
    held = -1;
    canvas.classList.remove("held");
    drop(positions);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  // A finger on a sprite drags it; anywhere else it scrolls the page.
  const hold = (event) => spriteAt(world, peek(), ...place(event.touches[0])) >= 0 && event.preventDefault();
  canvas.addEventListener("touchstart", hold, { passive: false });
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
