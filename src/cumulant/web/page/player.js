// The clock of an episode: plays, pauses, steps and seeks; between two states it shows points on the way.

const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Player {
  /** `show(positions, t)` draws; `changed(player)` hears of every whole step, play and pause. */
  constructor(show, changed) {
    Object.assign(this, { show, changed, states: [], time: 0, playing: false, speed: 8 });
  }

  get last() {
    return this.states.length - 1;
  }

  get t() {
    return Math.floor(this.time);
  }

  get ended() {
    return this.time >= this.last;
  }

  get positions() {
    return this.states[this.t];
  }

  load(states, playing = true) {
    this.states = states;
    this.time = 0;
    this.playing = false;
    this.seek(0);
    if (playing) this.play();
  }

  seek(t) {
    this.time = Math.min(Math.max(t, 0), this.last);
    this.show(this.positions, this.t);
    this.changed(this);
  }

  play() {
    if (this.playing) return;
    if (this.ended) this.time = 0;
    this.playing = true;
    this.changed(this);
    let before = performance.now();
    const tick = (now) => {
      if (!this.playing) return;
      this.advance(Math.min(Math.max(now - before, 0), 250) / 1000); // a frame may date from before the call
      before = now;
      if (this.playing) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  pause() {
    this.playing = false;
    this.seek(this.t);
  }

  advance(seconds) {
    const t = this.t;
    this.time += seconds * this.speed;
    if (this.ended) return this.pause();
    this.show(still.matches ? this.positions : between(this.positions, this.states[this.t + 1], this.time % 1), this.t);
    if (this.t !== t) this.changed(this);
  }
}

function between(a, b, share) {
  return a.map((x, i) => x + share * (b[i] - x));
}
