// What a world that can be drawn looks like: the server's frames of an episode, which come after the episode itself.

import { call } from "./api.js";

export class Film {
  constructor(canvas) {
    Object.assign(this, { canvas, t: 0, latest: 0, images: [] });
  }

  /** Ask for an episode's frames. Until they are here, the last ones stay. */
  async load(request) {
    const mine = ++this.latest;
    const film = await call("frames", request).catch(() => null);
    const images = await Promise.all((film?.images ?? []).map(decoded));
    if (mine !== this.latest || !images.length) return;
    Object.assign(this, { images, every: film.every, first: film.first });
    this.show(this.t);
  }

  /** The frame of a step, or the one before it. */
  show(t) {
    this.t = t;
    if (!this.images.length) return;
    const place = Math.floor((t - this.first) / this.every);
    const image = this.images[Math.min(Math.max(0, place), this.images.length - 1)];
    if (this.canvas.width !== image.naturalWidth) this.canvas.width = this.canvas.height = image.naturalWidth;
    this.canvas.getContext("2d").drawImage(image, 0, 0);
  }
}

async function decoded(url) {
  const image = new Image();
  image.src = url;
  await image.decode();
  return image;
}
