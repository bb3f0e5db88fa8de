// Ties the page together: what is asked, the episode that answers it, and the views of both.

import { call, fetchGif, fetchWorld } from "./api.js";
import { Bars, regionOf, told } from "./bars.js";
import { Compare } from "./compare.js";
import { Film } from "./film.js";
import { dragging, playing } from "./hands.js";
import { How } from "./how.js";
import * as link from "./link.js";
import { described, element, Grid, showClauses } from "./mind.js";
import { Player } from "./player.js";
import { problem } from "./problem.js";
import { PsiView } from "./psi.js";
import { showStages } from "./stages.js";
import { tabs } from "./tabs.js";
import { Bands, Painting, Teach } from "./teach.js";
import { tips } from "./tips.js";
import { arenaView, barsView } from "./view.js";

const PATIENCE = 300; // milliseconds until somebody who waits, as the first goal of a kind is compiled, is told so
const $ = (id) => document.getElementById(id);
const world = await fetchWorld().catch((error) => {
  problem($("problem"), error);
  throw error;
});
const sprites = world.sprites.length > 0; // else there are bars, and frames if the world draws any
dress();
let asked = link.read(); // phrase, seed, start, stage, weights, after: all that an episode depends on
if (!sprites) asked.start = null; // only sprites can be put somewhere
let goal = { stages: [{ clauses: [], avoid: [], weights: [] }], bins: world.bins };
let episode = null;
let steps = 0; // a person's own, since taking over
let latest = 0; // a newer question makes older answers void

const whose = sprites ? "sprite" : "feature";
const grid = new Grid($("grid"), world, `Every skill: whether its ${whose} is there, whether it is wanted, its value`);
const how = new How(world, $("how-steps"));
const view = sprites ? arenaView(world, $("arena")) : barsView(world, new Bars(world, world.draws ? "beside" : ""));
const film = !sprites && world.draws ? new Film($("arena")) : null;
if (!sprites) $("bars").append(view.element);
const player = new Player(show, changed);
const compare = new Compare(world, $("players"), $("run-compare"));
const region = sprites ? new Painting(world, { sprites: $("taught-sprite"), paint: $("paint") }) : new Bands(world, $("bands"));
const teach = new Teach(world, region, { lesson: $("lesson"), table: $("learnt"), painted: $("painted") });
const psi = new PsiView(world, { maps: $("maps"), action: $("psi-action"), note: $("psi-note") });

/** Show what makes sense in this world, and hide the rest. */
function dress() {
  document.querySelectorAll("[data-for]").forEach((one) => (one.hidden = (one.dataset.for === "sprites") !== sprites));
  $("gif").hidden = !world.draws;
  $("count").textContent = { 2: "two", 3: "three" }[world.methods.length] ?? "four";
  $("phrase").placeholder = world.examples[0] ?? "";
  if (sprites) return;
  $("arena").hidden = !world.draws;
  $("arena").role = "img";
  ["tabindex", "aria-describedby"].forEach((name) => $("arena").removeAttribute(name));
}

/** Ask for an episode, and play it. The world waits for the answer; if that is a refusal, it goes on as before. */
async function act(wanted, { told = "", playing = true } = {}) {
  const mine = ++latest;
  const going = player.playing;
  if (going) player.pause();
  const { phrase, weights } = wanted;
  const slow = setTimeout(() => mine === latest && judge("One moment …"), PATIENCE);
  try {
    const [parsed, played] = await Promise.all([call("parse", { phrase, weights }), call("episode", wanted)]);
    if (mine !== latest) return;
    [goal, episode, steps, asked] = [parsed, played, 0, wanted];
  } catch (error) {
    if (mine !== latest) return;
    if (going) player.play();
    else if (episode) verdict(player.ended);
    else judge("");
    return problem($("problem"), error, phrase, (better) => ask(better));
  } finally {
    clearTimeout(slow);
  }
  problem($("problem"), null);
  link.write(asked);
  tell(told);
  compare.reset(episode, goal, weights !== null);
  $("hand").hidden = true;
  player.load(episode.positions, playing && !matchMedia("(prefers-reduced-motion: reduce)").matches);
  film?.load(asked);
}

/** A new goal, from where the world is now. */
function ask(phrase) {
  $("phrase").value = phrase;
  const begun = episode && (player.t > 0 || steps > 0);
  const told = begun ? "It goes on from where the world was: a link shows the episode from here on." : "";
  const from = begun ? here() : episode ? {} : { start: null, after: [] }; // what the address held may be no place
  return act({ ...asked, ...from, phrase, weights: null, stage: 0 }, { told });
}

/** How to say where the world is: by its sprites; or by what was pursued until now. */
function here() {
  if (sprites) return { start: player.positions, after: [] };
  const { phrase, weights, stage, after } = asked;
  return { after: [...after, { phrase, weights, stage, steps: player.t }] };
}

/** What a person's hands have done to the episode, and what a link makes of it. */
function tell(what) {
  if ($("hands").textContent !== what) $("hands").textContent = what;
}

/** A person's action, in place of the agent's. */
async function take(action) {
  if (take.busy || !episode || (steps && episode.violation)) return;
  take.busy = true;
  player.pause();
  const { phrase, weights } = asked;
  const request = { phrase, weights, positions: player.positions, action, stage: stageAt(player.t) };
  const taken = await call("step", request).catch(() => null);
  take.busy = false;
  if (!taken) return;
  latest++;
  steps++;
  const after = ["positions", "bins", "stages", "met"].map((name) => [name, [taken[name][1]]]);
  episode = { ...taken, ...Object.fromEntries(after) };
  tell("These steps are your own: a link shows the episode without them.");
  $("hand").hidden = false;
  player.load(episode.positions, false);
}

/** Let the agent go on from here; with a plan that is broken, from its first stage. */
function hand() {
  if (!steps) return;
  $("arena").focus();
  const told = "It goes on from where you left off: a link shows the episode from here on.";
  act({ ...asked, ...here(), stage: episode.violation ? 0 : stageAt(player.t) }, { told });
}

/** Let the agent go on, or begin with its plan anew if that was over, from where a person has put the sprites. */
function put(positions, playing) {
  const over = player.ended && (episode.violation || episode.success);
  const told = "Moved by hand: the agent goes on from here, and so does a link.";
  act({ ...asked, start: positions, after: [], stage: over ? 0 : stageAt(player.t) }, { told, playing });
}

/** The same from another start. */
function anew() {
  return { ...asked, seed: Math.floor(10_000 * Math.random()), start: null, stage: 0, after: [] };
}

function thought(t) {
  return episode?.thoughts?.[Math.min(t, episode.thoughts.length - 1)] ?? null;
}

/** The current stage, or the last if all are reached. */
function stageAt(t) {
  return Math.min(episode.stages[t], goal.stages.length - 1);
}

function show(positions, t) {
  view.show(positions, goal, episode.stages[t], pursued(thought(t), t), episode.met[t]);
  film?.show(t);
}

/** The clause that is in mind, if the agent has the current stage in mind; of weights that were taught none is the phrase's. */
function pursued(mind, t) {
  return mind?.stage === stageAt(t) && asked.weights === null ? mind.clause : undefined;
}

function changed({ t, last, ended, playing }) {
  const mind = thought(t); // at the end, what it thought last
  const now = ended ? null : mind;
  $("time").max = last;
  $("time").value = t;
  $("clock").textContent = steps ? `your step ${steps}` : `step ${t} of ${last}`;
  $("play").textContent = playing ? "Pause" : "Play";
  $("step").disabled = ended;
  const stage = goal.stages[stageAt(t)];
  const { weights } = goal.stages[mind?.stage ?? stageAt(t)];
  showStages($("stages"), goal.stages, episode.stages[t], ended ? episode.violation : "");
  $("goal-title").textContent = goal.stages.length > 1 ? `The goal of stage ${stageAt(t) + 1}` : "The goal";
  showClauses($("clauses"), world, stage.clauses, episode.met[t], pursued(now, t));
  const shown = { bins: episode.bins[t], weights: weights[mind?.clause ?? 0], thought: now, numbers: mind?.values };
  grid.show(shown);
  how.show(shown);
  $("following").replaceChildren(...following(now, t));
  verdict(ended);
  $("arena").ariaLabel = `World: ${whereabouts(t).join(", ")}`;
  if (!$("psi").hidden) psi.show(state());
}

function following(mind, t) {
  if (!mind && steps) return ["You are playing: it watches."];
  if (!mind) return [player.last ? "At rest. Skills are worth what they were at its last step." : "At rest."];
  const { mark, name, arrow } = described(world, world.features[mind.feature]);
  const skill = element("strong", {}, mark, `${`${name} ${arrow}`.trim()} to ${world.bin_names[mind.feature][mind.bin]}`);
  return ["Follows the skill ", skill, element("span", { className: "action" }, world.actions[episode.actions[t]])];
}

function verdict(ended) {
  const { success, violation } = episode;
  const alone = success ? `You did it in ${steps} steps` : violation ? `You ${violation}` : "You are playing";
  const solved = player.last ? `Solved in ${player.last} step${player.last === 1 ? "" : "s"}` : "Already so";
  const watched = success ? solved : violation ? `Failed: ${violation}` : `Not solved in ${player.last} steps`;
  judge(steps ? alone : ended ? watched : "", success ? "good" : steps && !violation ? "" : "bad");
}

function judge(text, looks = "") {
  if ($("verdict").textContent !== text) $("verdict").textContent = text;
  $("verdict").className = `verdict ${looks}`;
}

/** Where everything is, in words. */
function whereabouts(t) {
  const shares = episode.positions[t];
  if (!sprites) return world.bars.map((bar, i) => `${bar.name} ${told(bar, shares[i])}`);
  const region = (i) => regionOf(world.bars[i], shares[i]);
  return world.sprites.map(({ name }, i) => `${name} ${region(2 * i + 1)} ${region(2 * i)}`);
}

/** The state that is shown, as the server knows it: by where sprites are, or as a step of the episode. */
function state() {
  return sprites ? { positions: player.positions } : { episode: asked, step: player.t };
}

async function saveGif() {
  $("gif").disabled = true;
  const saved = await fetchGif(asked).catch((error) => void problem($("problem"), error, asked.phrase));
  $("gif").disabled = false;
  if (!saved) return;
  const address = URL.createObjectURL(saved);
  element("a", { href: address, download: `${asked.phrase.replace(/[^\w]+/g, "-").slice(0, 60)}.gif` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

async function share() {
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  $("share").textContent = copied ? "Copied" : "Copy the address above";
  setTimeout(() => ($("share").textContent = "Copy link"), 2000);
}

async function learn() {
  if (!teach.phrase) return void ($("lesson").textContent = region.hint);
  $("learn").disabled = true;
  try {
    const { phrase, weights } = await teach.learn(asked.seed, Number($("budget").value));
    if (weights) {
      $("phrase").value = phrase;
      await act({ ...anew(), phrase, weights });
      $("lesson").textContent += ". Acting on it now.";
    }
  } catch (error) {
    $("lesson").textContent = error.message;
  }
  $("learn").disabled = false;
}

$("goal").addEventListener("submit", (event) => {
  event.preventDefault();
  ask($("phrase").value);
});
$("examples").append(...world.examples.map((phrase) => {
  return element("button", { type: "button", onclick: () => ask(phrase) }, phrase);
}));
$("play").onclick = () => (player.playing ? player.pause() : player.play());
$("step").onclick = () => (player.pause(), player.seek(player.t + 1));
$("replay").onclick = () => (player.seek(0), player.play());
$("dice").onclick = () => act(anew());
$("time").oninput = () => {
  const t = Number($("time").value); // before pausing, which shows where it pauses
  player.pause();
  player.seek(t);
};
$("speed").oninput = () => (player.speed = Number($("speed").value));
$("share").onclick = share;
$("gif").onclick = saveGif;
$("hand").onclick = hand;
$("learn").onclick = learn;
$("wipe").onclick = () => teach.clear();
$("run-compare").onclick = () => compare.start(asked, player.speed);
$("psi-action").onchange = () => psi.show(state());
tabs(document.querySelector("[role=tablist]"), () => $("psi").hidden || psi.show(state()));
if (sprites) {
  let going = false;
  dragging($("arena"), world, {
    peek: () => player.positions ?? [],
    grab: () => {
      going = player.playing || player.ended;
      player.pause();
      return player.positions;
    },
    move: (positions) => show(positions, player.t),
    drop: (positions) => put(positions, going),
    leave: () => going && !player.ended && player.play(),
  });
  playing($("arena"), { act: take, hand });
}
new ResizeObserver(() => episode && show(player.positions, player.t)).observe($("arena"));

tips();
asked.phrase ||= world.examples[0];
$("phrase").value = asked.phrase;
act(asked);
