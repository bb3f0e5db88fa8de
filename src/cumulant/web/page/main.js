// Ties the page together: what is asked, the episode that answers it, and the views of both.

import { call, fetchGif, fetchWorld, onNews } from "./api.js";
import { draw } from "./arena.js";
import { Compare } from "./compare.js";
import { dragging, playing } from "./hands.js";
import * as link from "./link.js";
import { described, element, Grid, showClauses } from "./mind.js";
import { Player } from "./player.js";
import { problem } from "./problem.js";
import { PsiView } from "./psi.js";
import { tabs } from "./tabs.js";
import { Teach } from "./teach.js";

const EXAMPLES = [
  "square top left and circle right",
  "get the circle to the middle",
  "agent left or square bottom",
  "not (square left or circle top)",
];
const $ = (id) => document.getElementById(id);
const world = await fetchWorld().catch((error) => {
  problem($("problem"), error);
  throw error;
});
const asked = link.read(); // phrase, seed, start, weights: all that an episode depends on
let goal = { clauses: [], bins: world.bins, weights: [] };
let episode = null;
let steps = 0; // a person's own, since taking over
let latest = 0; // a newer question makes older answers void

const grid = new Grid($("grid"), world, "Every policy: whether its sprite is there, whether it is wanted, its value");
const player = new Player(show, changed);
const compare = new Compare(world, $("players"));
const teach = new Teach(world, { sprites: $("taught-sprite"), paint: $("paint"), lesson: $("lesson"), table: $("learnt") });
const psi = new PsiView(world, { maps: $("maps"), action: $("psi-action"), note: $("psi-note") });

/** Ask for the episode, and play it. */
async function act() {
  const mine = ++latest;
  const { phrase, weights } = asked;
  try {
    const [parsed, played] = await Promise.all([call("parse", { phrase, weights }), call("episode", asked)]);
    if (mine !== latest) return;
    [goal, episode, steps] = [parsed, played, 0];
  } catch (error) {
    return mine === latest && problem($("problem"), error, phrase, (better) => ask(better));
  }
  problem($("problem"), null);
  link.write(asked);
  compare.reset(episode.positions[0], goal);
  $("hand").hidden = true;
  player.load(episode.positions, !matchMedia("(prefers-reduced-motion: reduce)").matches);
}

/** A new goal, from where the sprites are now. */
function ask(phrase, weights = null) {
  $("phrase").value = phrase;
  if (episode && player.t > 0) asked.start = player.positions;
  Object.assign(asked, { phrase, weights });
  return act();
}

/** A person's action, in place of the agent's. */
async function take(action) {
  if (take.busy || !episode) return;
  take.busy = true;
  player.pause();
  const { phrase, weights } = asked;
  const taken = await call("step", { phrase, weights, positions: player.positions, action }).catch(() => null);
  take.busy = false;
  if (!taken) return;
  latest++;
  steps++;
  episode = { ...taken, positions: [taken.positions[1]], bins: [taken.bins[1]], met: [taken.met[1]] };
  $("hand").hidden = false;
  player.load(episode.positions, false);
}

/** Let the agent go on from here. */
function hand() {
  if (!steps) return;
  asked.start = player.positions;
  $("arena").focus();
  act();
}

function random() {
  return Math.floor(10_000 * Math.random());
}

function thought(t) {
  return episode?.thoughts?.[Math.min(t, episode.thoughts.length - 1)] ?? null;
}

function show(positions, t) {
  const only = goal.clauses.length === 1 ? 0 : thought(t)?.clause;
  draw($("arena"), world, positions, goal.clauses[only], goal.bins);
}

function changed({ t, last, ended, playing }) {
  const mind = thought(t);
  const now = ended ? null : mind;
  $("time").max = last;
  $("time").value = t;
  $("clock").textContent = steps ? `your step ${steps}` : `step ${t} of ${last}`;
  $("play").textContent = playing ? "Pause" : "Play";
  $("step").disabled = ended;
  showClauses($("clauses"), world, goal.clauses, episode.met[t], now?.clause);
  grid.show({ bins: episode.bins[t], weights: goal.weights[mind?.clause ?? 0], thought: now });
  $("following").replaceChildren(...following(now, t));
  verdict(ended);
  $("arena").ariaLabel = `World: ${world.sprites.map((sprite, i) => `${sprite.name} ${whereabouts(i, t)}`).join(", ")}`;
  if (!$("psi").hidden) psi.show(player.positions);
}

function following(mind, t) {
  if (!mind) return [steps ? "You are playing: it watches." : "At rest."];
  const { mark, name } = described(world, world.features[mind.feature]);
  const policy = element("strong", {}, mark, `${name} to ${world.bin_names[mind.feature][mind.bin]}`);
  return ["Follows the policy ", policy, element("span", { className: "action" }, world.actions[episode.actions[t]])];
}

function verdict(ended) {
  const text = steps
    ? episode.success ? `You did it in ${steps} steps` : "You are playing"
    : !ended ? "" : episode.success ? (player.last ? `Solved in ${player.last} steps` : "Already so") : `Not solved in ${player.last} steps`;
  if ($("verdict").textContent !== text) $("verdict").textContent = text;
  $("verdict").className = `verdict ${episode.success ? "good" : steps ? "" : "bad"}`;
}

function whereabouts(sprite, t) {
  return [1, 0].map((axis) => {
    const third = Math.min(2, Math.floor(3 * episode.positions[t][2 * sprite + axis]));
    return [["left", "centre", "right"], ["bottom", "middle", "top"]][axis][third];
  }).join(" ");
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
  if (!teach.phrase) return void ($("lesson").textContent = "Paint a region first.");
  $("learn").disabled = true;
  try {
    const weights = await teach.learn(asked.seed);
    Object.assign(asked, { seed: random(), start: null });
    player.seek(0); // so that the new start, not this state, is where it acts from
    await ask(teach.phrase, weights);
    $("lesson").textContent += ". Acting on it above.";
  } catch (error) {
    $("lesson").textContent = error.message;
  }
  $("learn").disabled = false;
}

$("goal").addEventListener("submit", (event) => {
  event.preventDefault();
  ask($("phrase").value);
});
$("examples").append(...EXAMPLES.map((phrase) => {
  return element("button", { type: "button", onclick: () => ask(phrase) }, phrase);
}));
$("play").onclick = () => (player.playing ? player.pause() : player.play());
$("step").onclick = () => (player.pause(), player.seek(player.t + 1));
$("replay").onclick = () => (player.seek(0), player.play());
$("dice").onclick = () => {
  Object.assign(asked, { seed: random(), start: null });
  act();
};
$("time").oninput = () => (player.pause(), player.seek(Number($("time").value)));
$("speed").oninput = () => (player.speed = Number($("speed").value));
$("share").onclick = share;
$("gif").onclick = saveGif;
$("hand").onclick = hand;
$("learn").onclick = learn;
$("wipe").onclick = () => teach.clear();
$("run-compare").onclick = () => compare.start(asked, player.speed);
$("psi-action").onchange = () => psi.show(player.positions);
tabs(document.querySelector("[role=tablist]"), () => $("psi").hidden || psi.show(player.positions));
dragging($("arena"), world, {
  peek: () => player.positions,
  grab: () => (player.pause(), player.positions),
  drop: (positions) => {
    asked.start = positions;
    act();
  },
});
playing($("arena"), { act: take, hand });
new ResizeObserver(() => episode && show(player.positions, player.t)).observe($("arena"));

onNews((news) => problem($("problem"), news)); // until an answer comes
asked.phrase ||= EXAMPLES[0];
$("phrase").value = asked.phrase;
act();
