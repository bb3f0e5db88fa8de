// The same start and goal for several players side by side, then their success over many starts as it accumulates.

import { call } from "./api.js";
import { element } from "./mind.js";
import { decimals, roughly } from "./numbers.js";
import { Player } from "./player.js";
import { smallView } from "./view.js";

// What to call each player, what the paper's readers call it, and what it does.
const METHODS = {
  committed: ["The agent", "Committed GPI", "Stays with a skill until its part of the goal is reached, then takes the next."],
  plain: ["The paper's agent", "Plain GPI", "Takes the best action of the best skill, and chooses anew at every step."],
  oracle: ["The expert", "Oracle", "Written by hand for this world, and told where everything is."],
  random: ["Pure chance", "Random", "Takes any action at all: what luck alone achieves."],
};
const EPISODES = 200;

export class Compare {
  constructor(world, box, button) {
    Object.assign(this, { world, button });
    this.run = 0; // a newer run makes the older ones stop
    this.methods = Object.keys(METHODS).filter((method) => world.methods.includes(method));
    this.panels = Object.fromEntries(this.methods.map((name) => [name, panel(world, name)]));
    box.style.setProperty("--players", this.methods.length);
    box.replaceChildren(...Object.values(this.panels).map((one) => one.figure));
    this.scratch = element("div", { className: "note scratch" });
    box.after(this.scratch);
    new ResizeObserver(() => this.redraw()).observe(box); // a hidden tab has no size to draw in
  }

  stop() {
    this.run++;
    this.button.disabled = false;
    Object.values(this.panels).forEach((one) => one.player?.pause());
  }

  /** Another goal or start: nothing is known of it yet. */
  reset({ positions, met }, goal, taught) {
    this.stop();
    this.goal = goal;
    this.scratch.replaceChildren(...(goal.from_scratch ? fromScratch(goal.from_scratch, taught) : []));
    Object.values(this.panels).forEach((one) => {
      [one.shown, one.stage, one.met] = [positions[0], 0, met[0]];
      [one.verdict.textContent, one.bar.value, one.note.textContent] = ["", 0, "not played yet"];
    });
    this.redraw();
  }

  redraw() {
    for (const one of Object.values(this.panels)) {
      if (one.shown) one.view.show(one.shown, this.goal, one.stage, undefined, one.met);
    }
  }

  async start(request, speed) {
    this.stop();
    const run = this.run;
    this.button.disabled = true;
    try {
      await this.play(request, speed, run);
    } finally {
      if (run === this.run) this.button.disabled = false;
    }
  }

  async play(request, speed, run) {
    await Promise.all(this.methods.map((method) => this.watch({ ...request, method }, speed, run)));
    const { phrase, weights, seed } = request;
    const tally = Object.fromEntries(this.methods.map((method) => [method, { solved: 0, steps: 0, played: 0 }]));
    for (let done = 0; done < EPISODES; ) {
      const rest = this.methods.filter((method) => !this.panels[method].refused);
      const results = await Promise.all(rest.map(async (method) => {
        return [method, await call("evaluate", { phrase, weights, seed: (seed + done) % 2 ** 32, method })];
      }));
      if (run !== this.run) return;
      results.forEach(([method, outcome]) => this.count(method, tally[method], outcome));
      done += results[0][1].success.length;
    }
  }

  async watch(request, speed, run) {
    const one = this.panels[request.method];
    one.note.textContent = "…";
    one.refused = false;
    one.bar.value = 0;
    try {
      const episode = await call("episode", request);
      if (run !== this.run) return;
      const show = (positions, t) => {
        [one.shown, one.stage, one.met] = [positions, episode.stages[t], episode.met[t]];
        this.redraw();
      };
      one.player = new Player(show, (player) => {
        const end = episode.success ? `solved in ${player.last} steps` : episode.violation || "not solved";
        one.verdict.textContent = player.ended ? end : `step ${player.t} of ${player.last}`;
        one.verdict.className = player.ended ? (episode.success ? "good" : "bad") : "";
      });
      one.player.speed = speed;
      one.player.load(episode.positions);
    } catch (problem) {
      one.refused = true;
      one.verdict.textContent = "";
      one.note.textContent = problem.message;
    }
  }

  count(method, tally, { success, steps }) {
    const limit = this.world.max_steps * this.goal.stages.length;
    success.forEach((solved, i) => {
      tally.played++;
      tally.solved += solved;
      tally.steps += solved ? steps[i] : limit; // or a player that mostly fails would look quick
    });
    const { bar, note } = this.panels[method];
    bar.value = tally.solved / tally.played;
    const counted = tally.solved < tally.played ? `, a failure counting as ${limit}` : "";
    const mean = `${decimals(tally.steps / tally.played, 1)} steps${counted}`;
    note.textContent = `${decimals((100 * tally.solved) / tally.played, 1)} % of ${tally.played}, ${mean}`;
  }
}

/** What the same kind of task takes without free play, and how that was measured. */
function fromScratch({ steps, most, source }, taught) {
  const needed = steps === null ? `not learnt in ${most.toLocaleString("en")} steps` : `some ${roughly(steps)} steps`;
  const here = taught ? "the labelled steps that taught the reward" : "0";
  const said = element("p", {}, `DQN, from scratch: ${needed} for a task of this kind; here ${here}.`);
  return [said, element("details", {}, element("summary", {}, "How this was measured"), source)];
}

function panel(world, method) {
  const [name, technical, what] = METHODS[method];
  const view = smallView(world, `${technical} playing`);
  const verdict = element("span", {}, "");
  const note = element("span", { className: "note" }, "not played yet");
  const bar = element("meter", { min: 0, max: 1, value: 0, ariaLabel: `Success of ${technical}` });
  const names = element("span", { className: "names" }, element("strong", {}, name), element("span", { className: "technical" }, technical));
  const caption = element("figcaption", {}, names, element("span", { className: "what" }, what), verdict, bar, note);
  return { view, verdict, note, bar, figure: element("figure", {}, view.element, caption) };
}
