"""What the page asks of the player, and what it is told: over HTTP and over the socket, in worlds of three kinds."""

import base64
import io
import json
import re
import time
from dataclasses import replace
from importlib import resources

import jax
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from cumulant import play
from cumulant.goals.language import parse
from cumulant.goals.words import MAX_CHARACTERS
from cumulant.web.api import OFFERS, world_of
from cumulant.web.from_scratch import from_scratch
from cumulant.web.player import Player
from cumulant.web.server import MAX_BYTES
from cumulant.worlds.room import Room
from cumulant.worlds.spriteworld import Spriteworld
from dqn_steps import dqn_steps
from other_worlds import room_library
from web_server import PHRASE, PLAN, ROOM_PLAN, UP_AND_DOWN, ask, player_in

DQN = {name: dqn_steps()[name] for name in ("most", "source")}
LEG = {"phrase": "agent left", "steps": 1}
JARGON = re.compile(
    "Input should|valid (integer|number|list)|_error|_type|body|[a-z]\\.[0-9]|Field required|Extra inputs"
)
AND_ROOM = "lamp on and temperature warm"
START = [0.5, 0.5, 0.1, 0.25, 0.75, 0.5]


@pytest.fixture
def post(client, address_of):
    """Return the answer to a request, in a world."""
    return lambda kind, world="sprites", **request: client.post(
        f"http://{address_of(world)}/api/{kind}", json=request
    ).json()


def test_world_says_how_to_draw_it(client, address_of):
    sprites, room, crane = (
        client.get(f"http://{address_of(world)}/api/world").json() for world in ("sprites", "room", "crane")
    )
    assert [sprite["name"] for sprite in sprites["sprites"]] == ["agent", "square", "circle"]
    assert sprites["sprites"][1]["colour"] == "#56b4e9"
    assert len(sprites["sprites"][1]["outline"]) == 4
    assert (room["sprites"], room["draws"], room["methods"]) == ([], False, ["committed", "plain", "random"])
    warmth = room["bars"][0]
    assert [warmth[name] for name in ("name", "low", "high", "unit")] == ["temperature", 10, 30, "°C"]
    assert room["bars"][1]["regions"] == ["off", "on"]
    bins = [["cold", "mild", "warm"], ["off", "on"], ["shut", "half", "open"], ["quiet", "soft", "loud"]]
    assert [bar["bins"] for bar in room["bars"]] == bins  # the library's, or the names of values
    assert room["bin_names"] == [bins[0], ["off", "2/3", "on"], *bins[2:]]
    assert room["actions"][2] == "lamp on"
    assert (crane["bars"][0]["name"], crane["draws"], crane["actions"][0]) == ("load height", True, "action 0")
    library = room_library()
    finer = world_of(Player(replace(library, config=replace(library.config, bins=9))))
    assert [bar.bins[:2] for bar in finer.bars] == [["1/9", "2/9"], ["off", "on"], *[["1/9", "2/9"]] * 2]


def test_phrase_is_explained_condition_by_condition(post):
    parsed = post("parse", phrase="get the square to the top left or the circle right")
    assert parsed["canonical"] == parsed["brief"] == "square top left or circle right"
    (stage,) = parsed["stages"]
    assert [[c["words"] for c in clause] for clause in stage["clauses"]] == [["left", "top"], ["right"]]
    assert np.shape(stage["weights"]) == (2, 6, 3)
    (stage,) = post("parse", "room", phrase=AND_ROOM)["stages"]
    assert [(c["feature"], c["words"]) for c in stage["clauses"][0]] == [(0, "warm"), (1, "on")]


def test_plan_is_explained_stage_by_stage(post):
    assert [stage["canonical"] for stage in post("parse", "room", phrase=ROOM_PLAN)["stages"]] == ROOM_PLAN.split(
        " then "
    )
    parsed = post("parse", phrase=PLAN)
    assert parsed["canonical"] == PLAN
    assert [stage["canonical"] for stage in parsed["stages"]] == PLAN.split(" then ")
    first, last = (
        [[(c["sprite"], c["words"]) for c in stage["clauses"][0]], stage["avoid"]] for stage in parsed["stages"]
    )
    assert first == [[("square", "left")], []]
    assert last[0] == [("agent", "not bottom"), ("square", "left"), ("circle", "top")]  # what is kept, and outside
    assert [[(c["sprite"], c["words"]) for c in clause] for clause in last[1]] == [[("agent", "bottom")]]


def test_canonical_phrase_is_understood_however_long(post):
    even = ",".join(str(b) for b in range(2, 100, 2))
    phrase = " or ".join(f"square x {even}/99 y {b}/99 and circle x {b}/99" for b in range(1, 61))
    canonical = post("parse", phrase=phrase)["canonical"]
    assert 5 * MAX_CHARACTERS < len(canonical) < MAX_BYTES
    assert post("parse", phrase=canonical)["canonical"] == canonical


@pytest.mark.parametrize(
    ("world", "phrase", "seed", "wanted"),
    [("sprites", PHRASE, 3, {(2, 0), (3, 2), (4, 2)}), ("room", AND_ROOM, 1, {(0, 2), (1, 2)})],
)
def test_episode_shows_what_the_agent_has_in_mind(post, world, phrase, seed, wanted):
    episode = post("episode", world, phrase=phrase, seed=seed)
    steps, held = len(episode["actions"]), 2 ** len(wanted) - 1
    assert episode["success"]
    assert len(episode["thoughts"]) == steps > 0
    assert np.shape(episode["positions"]) == np.shape(episode["bins"]) == (steps + 1, 6 if world == "sprites" else 4)
    assert [met == [held] for met in episode["met"]] == [False] * steps + [True]
    last = episode["positions"][-1]
    assert all(
        last[i] < 1 / 3 if b == 0 else last[i] >= (1 / 2 if (world, i) == ("room", 1) else 2 / 3) for i, b in wanted
    )
    for thought in episode["thoughts"]:  # it follows a policy for what the goal names, at its best bin
        row = thought["values"][thought["feature"]]
        assert row[thought["bin"]] == max(row)
        assert (thought["feature"], thought["bin"]) in wanted or world == "room"


def test_plans_stages_are_reached_one_by_one(post):
    episode = post("episode", phrase=PLAN, seed=11)
    stages, places = episode["stages"], np.array(episode["positions"])
    assert (episode["success"], episode["violation"]) == (True, "")
    assert stages == sorted(stages)
    assert set(stages) == {0, 1, 2}
    assert [thought["stage"] for thought in episode["thoughts"]] == stages[:-1]
    second = stages.index(1)
    assert places[second - 1, 2] >= 1 / 3  # until then, the square was not left
    assert (places[second:, 2] < 1 / 3).all()
    assert (places[second:, 1] >= 1 / 3).all()
    assert places[-1, 5] >= 2 / 3
    assert episode["met"][second - 1] == [0]
    assert episode["met"][-1] == [0b111]


@pytest.mark.parametrize(
    ("world", "phrase"),
    [("sprites", PLAN), ("room", ROOM_PLAN), ("crane", UP_AND_DOWN), ("crane", "load up")],
)
def test_episode_is_that_of_seed_in_python(post, world, phrase):
    library = player_in(world).library
    goal = library.goal(phrase)
    theirs = jax.jit(lambda key: play(library.seen, library.policy(goal), goal, key))(jax.random.key(11))
    ours = post("episode", world, phrase=phrase, seed=11)
    assert ours["actions"] == theirs.actions[: theirs.steps].tolist() != []
    assert ours["success"] == bool(theirs.success)
    assert ours["stages"][-1] == int(getattr(theirs.progress, "stage", theirs.success))


def test_episode_begins_where_it_is_told(post):
    episode = post("episode", phrase=PHRASE + " then agent left", start=START, stage=1)
    assert episode["positions"][0] == [float(np.float32(x)) for x in START]
    assert episode["stages"][0] == 1
    assert {thought["stage"] for thought in episode["thoughts"]} == {1}
    assert episode["success"]


@pytest.mark.parametrize(
    ("stage", "positions", "action", "violation"),
    [
        (1, [0.5, 0.4, 0.1, 0.5, 0.9, 0.5], 1, "entered agent bottom"),
        (1, [0.3, 0.5, 0.3, 0.5, 0.9, 0.5], 7, "lost square left"),
        (1, [0.5, 0.2, 0.1, 0.5, 0.9, 0.5], 1, ""),  # it was inside already
        (0, [0.5, 0.4, 0.9, 0.5, 0.9, 0.5], 1, ""),  # only the second stage avoids
    ],
)
def test_step_says_what_breaks_a_plan(post, stage, positions, action, violation):
    stepped = post("step", phrase=PLAN, stage=stage, positions=positions, action=action)
    assert (stepped["violation"], stepped["stages"], stepped["success"]) == (violation, [stage, stage], False)


def test_chance_breaks_plans_in_plain_words(post):
    told = {post("episode", "room", phrase=ROOM_PLAN, seed=seed, method="random")["violation"] for seed in range(12)}
    assert set() < told - {""} <= {"lost lamp on", "entered volume loud"}


@pytest.mark.parametrize("method", ["plain", "oracle", "random"])
def test_others_play_from_the_same_start(post, method):
    ours, theirs = (post("episode", phrase=PHRASE, seed=3, method=name) for name in ("committed", method))
    assert ours["positions"][0] == theirs["positions"][0]
    assert (theirs["thoughts"] is not None) == (method == "plain")


@pytest.mark.parametrize(
    ("world", "first", "then"),
    [
        ("sprites", "square right", "circle top"),
        ("room", AND_ROOM, "keep lamp off then blind shut"),
        ("crane", UP_AND_DOWN, "load half"),
    ],
)
def test_goal_is_changed_on_the_way(post, world, first, then):
    tried = ((seed, post("episode", world, phrase=first, seed=seed)) for seed in range(3, 12))
    seed, before = next((seed, episode) for seed, episode in tried if len(episode["actions"]) > 4)
    leg, still = {"phrase": first, "steps": 4}, {"phrase": then, "steps": 0}
    changed, again = (post("episode", world, phrase=then, seed=seed, after=[leg, still]) for _ in range(2))
    assert changed["positions"][0] == before["positions"][4]
    assert changed["success"]
    assert again == changed
    wrong = post("episode", world, phrase=then, seed=seed, after=[leg | {"steps": 99}])
    assert "is over after" in wrong["message"]
    if world == "sprites":
        assert changed == post("episode", phrase=then, seed=seed, start=before["positions"][4])  # says as much
        plan = {"phrase": "square left then " + PHRASE, "seed": seed, "stage": 1, "after": [leg]}
        second = {"phrase": plan["phrase"], "stage": 1, "steps": 2}
        again = post("episode", phrase="agent left", seed=seed, after=[leg, second])
        assert again["positions"][0] == post("episode", **plan)["positions"][2]


def test_person_can_step(post):
    stepped = post("step", phrase="agent right", positions=[0.6, 0.5, 0.6, 0.5, 0.1, 0.1], action=7)
    np.testing.assert_allclose(stepped["positions"][1], [0.65, 0.5, 0.65, 0.5, 0.1, 0.1], atol=1e-6)
    assert (stepped["success"], stepped["met"]) == (False, [[0], [0]])


@pytest.mark.parametrize(
    ("world", "phrase"),
    [("sprites", PHRASE), ("sprites", "square left then circle right"), ("crane", "load half"), ("crane", UP_AND_DOWN)],
)
def test_success_over_seeds_is_that_of_each(post, world, phrase):
    first = 2**32 - 6  # after the largest seed comes 0
    found = post("evaluate", world, phrase=phrase, seed=first)
    assert len(found["success"]) == len(found["steps"]) == 25
    for i in (0, 4, 7, 24):
        one = post("episode", world, phrase=phrase, seed=(first + i) % 2**32)
        assert (found["success"][i], found["steps"][i]) == (one["success"], len(one["actions"]))


@pytest.mark.parametrize(
    ("world", "phrase", "taught"),
    [
        ("sprites", "square x 1,2/6 y 5,6/6", {2: 0, 3: 2}),
        ("room", "temperature 3/3 and lamp 2/2", {0: 2, 1: 2}),
    ],
)
def test_rewards_teach_what_the_words_mean(post, world, phrase, taught):
    told = post("teach", world, phrase=phrase)
    assert told["nothing"] == ""
    assert [lesson["steps"] for lesson in told["lessons"]] == [250, 500, 1000, 2000]
    weights = np.array(told["lessons"][-1]["weights"])
    assert {i: weights[i].argmax() for i in taught} == taught
    if world == "sprites":
        assert {tuple(where) for where in np.argwhere(weights > 0.5 * weights.max())} == set(taught.items())
    assert post("episode", world, phrase=phrase, weights=weights.tolist(), seed=1)["success"]


@pytest.mark.parametrize(
    ("phrase", "why"),
    [
        ("square x 1/99 y 1/99 and circle x 99/99 y 99/99", "No reward was found in 2,000 steps: let more places earn"),
        ("square anywhere", "All of 2,000 steps were rewarded"),
    ],
)
def test_lesson_that_teaches_nothing_says_so(post, phrase, why):
    taught = post("teach", phrase=phrase)
    assert taught["nothing"].startswith(why)
    assert not np.any(taught["lessons"][-1]["weights"])


@pytest.mark.parametrize(
    ("phrase", "steps"),
    [
        ("agent left", 7_334),
        ("square top left", 89_546),
        ("square left or agent top", 5_941),
        ("square top left and circle bottom right", None),
        (PHRASE, "not measured"),
        ("square x 1/9", "not measured"),
        (PLAN, "not measured"),
    ],
)
def test_dqn_steps_are_told_of_measured_classes(post, phrase, steps):
    told = post("parse", phrase=phrase)["from_scratch"]
    assert told == (None if steps == "not measured" else DQN | {"steps": steps})
    assert from_scratch(Spriteworld(step_size=0.2), parse("agent left")) is None
    assert from_scratch(Room(), parse("lamp on", Room.feature_names)) is None


def test_dqn_is_told_as_it_was_recorded():
    written = resources.files("cumulant.web") / "dqn_steps.json"
    assert json.loads(written.read_text()) == dqn_steps()


def test_psi_is_the_lemmas_off_the_diagonal(post):
    here = [0.1, 0.9, 0.5, 0.25, 0.75, 0.5]
    psi = post("psi", positions=here, action=3)
    learnt, lemma, played = (np.array(psi[name], float) for name in ("learnt", "lemma", "played"))
    own = np.kron(np.eye(6), np.ones((3, 3))).astype(bool)
    assert np.isfinite(learnt[own]).all()
    assert np.isnan(learnt[~own]).all()
    assert np.isnan(lemma[own]).all()
    np.testing.assert_array_equal(lemma[0, 6:9], [0, 1, 0])  # the square is in the centre
    np.testing.assert_allclose(played.reshape(18, 6, 3).sum(axis=2), 1, atol=0.03)  # every feature is somewhere
    assert np.abs(learnt - played)[own].mean() < 0.15


def test_psi_is_that_of_an_episodes_step(post):
    of = {"phrase": AND_ROOM, "seed": 1}
    positions = post("episode", "room", **of)["positions"]
    psi = post("psi", "room", episode=of, step=1, action=0)
    lemma, played = (np.array(psi[name], float).reshape(4, 3, 4, 3) for name in ("lemma", "played"))
    here = np.minimum(2, np.floor(3 * np.array(positions[1]))).astype(int)
    np.testing.assert_array_equal(lemma[0, 0, 1:].argmax(axis=1), here[1:])
    np.testing.assert_allclose(played.sum(axis=3), 1, atol=0.03)
    psi = post("psi", "crane", episode={"phrase": "load up"}, action=1)
    assert np.isfinite(np.array(psi["learnt"], float)).all()
    assert set(np.ravel(psi["played"])) == {None}  # no state on the host can be gone on from twice


def test_frames_show_the_moments_of_an_episode(post):
    request = {"phrase": UP_AND_DOWN, "seed": 3}
    episode, film = (post(kind, "crane", **request) for kind in ("episode", "frames"))
    assert (film["every"], film["first"], len(film["images"])) == (1, 0, len(episode["positions"]))
    for image, (height,) in zip(film["images"], episode["positions"], strict=True):
        with Image.open(io.BytesIO(base64.b64decode(image.partition(",")[2]))) as picture:
            column = np.asarray(picture)[:, 160, 2]
        assert (column < 20).argmax() / 320 == pytest.approx((1 - height) * 64 / 84, abs=0.03)  # the block has no blue


def test_episode_becomes_a_gif_where_it_can(client, address_of):
    sprites, crane, room = (
        client.post(f"http://{address_of(world)}/api/gif", json={"phrase": phrase, "seed": 3})
        for world, phrase in (("sprites", "agent left"), ("crane", UP_AND_DOWN), ("room", AND_ROOM))
    )
    for made in (sprites, crane):
        assert made.headers["content-type"] == "image/gif"
        assert made.content.startswith(b"GIF89a")
    assert (room.status_code, room.json()["message"]) == (422, "this world cannot be drawn")


@pytest.mark.parametrize(
    ("world", "kind", "request_", "message"),
    [
        ("sprites", "parse", {"phrase": "get the sqare left"}, "unknown word 'sqare'; did you mean 'square'?"),
        ("sprites", "parse", {"phrase": ""}, "the phrase names no goal"),
        ("sprites", "parse", {"phrase": "left " * 12_000}, "words, which are all that is read"),
        ("sprites", "parse", {"phrase": PHRASE, "weights": [[1]]}, "weights are 6 rows of 3 numbers"),
        (
            "sprites",
            "parse",
            {"phrase": "keep square left then square right"},
            "contradicts itself: stage 2 breaks what is kept",
        ),
        ("sprites", "parse", {"phrase": "square left then"}, "the phrase ends too early"),
        (
            "sprites",
            "parse",
            {"phrase": " then ".join(["agent left"] * 9)},
            "plays plans of up to 8 stages, and this has 9",
        ),
        ("sprites", "parse", {"phrase": PLAN, "weights": [[0.0] * 3] * 6}, "this phrase is a plan"),
        ("sprites", "teach", {"phrase": PLAN}, "this phrase is a plan, where a plain goal is asked for"),
        ("sprites", "episode", {"phrase": PLAN, "stage": 2}, "there is no stage 2"),
        ("sprites", "episode", {"phrase": PHRASE, "start": [0.5]}, "positions are 6 numbers"),
        ("sprites", "episode", {"phrase": "square x 1/11", "method": "oracle"}, "cannot aim at 11 bins"),
        ("sprites", "episode", {"phrase": PHRASE, "weights": [[0.0] * 3] * 6}, "these weights are all 0"),
        ("sprites", "episode", {"phrase": PHRASE, "after": [LEG | {"phrase": "sqare left"}]}, "unknown word 'sqare'"),
        ("sprites", "episode", {"phrase": PHRASE, "after": [LEG | {"stage": 1}]}, "there is no stage 1"),
        (
            "sprites",
            "episode",
            {"phrase": PHRASE, "after": [LEG | {"steps": 99}]},
            "the episode of 'agent left' is over after ",
        ),
        ("sprites", "episode", {"phrase": PHRASE, "after": [LEG] * 9}, "a goal can be changed 8 times on the way"),
        (
            "sprites",
            "step",
            {"phrase": PHRASE, "positions": [0.5] * 6, "action": 8},
            "action: counted from 0, the last is 7",
        ),
        ("sprites", "parse", {}, "phrase is missing"),
        ("sprites", "parse", {"phrase": 1}, "phrase has to be text"),
        ("sprites", "parse", {"phrase": None}, "phrase has to be text"),
        ("sprites", "parse", {"phrase": PHRASE, "extra": 1}, "extra is nothing that this request knows"),
        ("sprites", "parse", {"phrase": PHRASE, "a\n" * 99: 1}, r"'a\na\na\n"),
        ("sprites", "parse", {"phrase": PHRASE, "weights": 1}, "weights has to be a list"),
        (
            "sprites",
            "parse",
            {"phrase": PHRASE, "weights": [[0, "1"]]},
            "entry 2 of entry 1 of weights has to be a number",
        ),
        (
            "sprites",
            "parse",
            {"phrase": PHRASE, "weights": [[99]]},
            "entry 1 of entry 1 of weights has to be 10 or less",
        ),
        ("sprites", "parse", {"phrase": PHRASE, "weights": [[0]] * 100}, "weights has at most 99 entries"),
        ("sprites", "episode", {"phrase": PHRASE, "seed": -1}, "seed has to be 0 or more"),
        ("sprites", "episode", {"phrase": PHRASE, "seed": 2**32}, "seed has to be below 4,294,967,296"),
        ("sprites", "episode", {"phrase": PHRASE, "seed": 10**40}, "seed has to be "),
        ("sprites", "episode", {"phrase": PHRASE, "seed": 0.5}, "seed has to be a whole number"),
        ("sprites", "episode", {"phrase": PHRASE, "seed": True}, "seed has to be a whole number"),
        ("sprites", "episode", {"phrase": PHRASE, "seed": "3"}, "seed has to be a whole number"),
        ("sprites", "episode", {"phrase": PHRASE, "start": "left"}, "start has to be a list"),
        ("sprites", "episode", {"phrase": PHRASE, "start": [True] * 6}, "entry 1 of start has to be a number"),
        ("sprites", "episode", {"phrase": PHRASE, "start": [0, 0, 2.0]}, "entry 3 of start has to be 1 or less"),
        ("sprites", "episode", {"phrase": PHRASE, "start": [0.5] * 21}, "start has at most 20 entries"),
        ("sprites", "episode", {"phrase": PHRASE, "stage": 8}, "stage has to be below 8"),
        (
            "sprites",
            "episode",
            {"phrase": PHRASE, "method": "best"},
            "method has to be 'committed', 'plain', 'oracle' or",
        ),
        (
            "sprites",
            "episode",
            {"phrase": PHRASE, "after": [{"phrase": PHRASE}]},
            "steps of entry 1 of after is missing",
        ),
        ("sprites", "evaluate", {"phrase": PHRASE, "method": 1}, "method has to be "),
        ("sprites", "frames", {"phrase": PHRASE, "after": 1}, "after has to be a list"),
        ("sprites", "step", {"phrase": PHRASE, "action": 0}, "positions is missing"),
        (
            "sprites",
            "step",
            {"phrase": PHRASE, "positions": [0, 1, 0, 1, 0, 1], "action": False},
            "action has to be a whole",
        ),
        ("sprites", "teach", {"phrase": PHRASE, "steps": 3000}, "steps has to be 2000 or 10000"),
        ("sprites", "teach", {"phrase": PHRASE, "weights": []}, "weights is nothing that this request knows"),
        ("sprites", "psi", {"positions": [0.5] * 6}, "action is missing"),
        ("sprites", "psi", {"positions": [0.5] * 6, "action": -1}, "action has to be 0 or more"),
        (
            "sprites",
            "psi",
            {"episode": {"phrase": PHRASE, "seed": -1}, "action": 0},
            "seed of episode has to be 0 or more",
        ),
        ("room", "parse", {"phrase": "lamb on"}, "unknown word 'lamb'; did you mean 'lamp'?"),
        ("room", "parse", {"phrase": "lamp warm"}, "'warm' does not fit: lamp has off, on"),
        (
            "room",
            "episode",
            {"phrase": AND_ROOM, "start": [0.5] * 4},
            "positions are of sprites, and this world has none",
        ),
        ("room", "step", {"phrase": AND_ROOM, "positions": [0.5] * 4, "action": 0}, "positions are of sprites"),
        ("room", "episode", {"phrase": AND_ROOM, "method": "oracle"}, "this world has no oracle"),
        ("room", "psi", {"episode": {"phrase": AND_ROOM}, "step": 999, "action": 0}, "step: the episode has"),
        ("room", "psi", {"episode": {"phrase": AND_ROOM}, "action": 8}, "action: counted from 0, the last is 7"),
        ("room", "psi", {"action": 0}, "a state is given by positions, or by an episode"),
        ("room", "frames", {"phrase": AND_ROOM}, "this world cannot be drawn"),
    ],
)
def test_nonsense_is_told_alike_on_both_ways(client, address_of, world, kind, request_, message):
    answer = client.post(f"http://{address_of(world)}/api/{kind}", json=request_)
    assert answer.status_code == 422
    with connect(f"ws://{address_of(world)}/api/socket") as socket:
        assert ask(socket, kind, **request_)["problem"] == answer.json()
    assert message in answer.json()["message"]
    assert len(answer.json()["message"].splitlines()) == 1
    assert not JARGON.search(answer.json()["message"])


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "message"),
    [
        ("POST", "/api/parse", "{", 422, "the request is no JSON"),
        ("POST", "/api/parse", "", 422, "the request is missing"),
        ("POST", "/api/parse", "3", 422, "the request has to be a JSON object"),
        ("POST", "/api/evaluate", "[]", 422, "the request has to be a JSON object"),
        ("POST", "/api/gif", "[1", 422, "the request is no JSON"),
        ("POST", "/api/gif", json.dumps({"phrase": "left", "seed": "x"}), 422, "seed has to be a whole number"),
        ("POST", "/api/nothing", "{}", 404, "there is nothing of that name here"),
        ("GET", "/nothing.js", "", 404, "there is nothing of that name here"),
        ("GET", "/api/parse", "", 405, "this address takes POST alone"),
        ("DELETE", "/main.js", "", 405, "this address takes GET and HEAD alone"),
    ],
)
def test_no_request_is_told_in_a_sentence(client, method, path, content, status, message):
    headers = {"Content-Type": "application/json"}
    answer = client.request(method, path, content=content, headers=headers)
    assert (answer.status_code, answer.json()["message"]) == (status, message)


def test_no_call_is_told_in_a_sentence(address):
    wrong = {
        "{": "the request is no JSON",
        "[]": "the request has to be a JSON object",
        '{"id": "1", "kind": "parse", "request": {}}': "id has to be a whole number",
        '{"id": 1, "request": {}}': "kind is missing",
        '{"id": 1, "kind": "guess", "request": {}}': "unknown kind: choose from parse, episode",
    }
    with connect(f"ws://{address}/api/socket") as socket:
        for text, message in wrong.items():
            socket.send(text)
            assert json.loads(socket.recv())["problem"]["message"].startswith(message)


def test_problem_points_and_suggests(post):
    problem = post("parse", phrase="get the sqare left")
    assert (problem["span"], problem["suggestion"]) == ([8, 13], "square")


def test_first_action_comes_within_200_ms(address):
    with connect(f"ws://{address}/api/socket") as socket:
        ask(socket, "episode", phrase=PHRASE)
        times = []
        for seed in range(5):
            start = time.perf_counter()
            assert ask(socket, "episode", phrase="circle left and square not top", seed=seed)["reply"]
            times.append(time.perf_counter() - start)
    assert min(times) < 0.2


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
calls = st.fixed_dictionaries(
    {"id": st.integers() | json_values, "kind": st.sampled_from([*OFFERS, "x"]), "request": json_values}
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(message=st.text(max_size=200) | st.binary(max_size=50) | calls.map(json.dumps) | json_values.map(json.dumps))
def test_no_message_breaks_the_socket(address, message):
    with connect(f"ws://{address}/api/socket") as socket:
        try:
            socket.send(message)
            assert json.loads(socket.recv(timeout=20)).keys() >= {"id"}
        except ConnectionClosed as closed:
            assert isinstance(message, bytes), closed
    with connect(f"ws://{address}/api/socket") as socket:
        assert "reply" in ask(socket, "parse", phrase=PHRASE)


def test_api_keeps_what_its_description_promises(address):
    checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
    told = set()
    schema = schemathesis.openapi.from_url(f"http://{address}/openapi.json")
    for operation in (result.ok() for result in schema.get_all_operations()):

        @settings(max_examples=15, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy())
        def promised(case):
            case.call_and_validate(checks=checks)

        promised()
        told.add(operation.path)
    assert told == {"/api/world", "/api/gif", *(f"/api/{name}" for name in OFFERS)}
