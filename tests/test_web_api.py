"""What the page asks of the player, and what it is told: over HTTP and over the socket, in the same words."""

import json
import re
import time
from importlib import resources

import jax
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from cumulant.goals.language import parse
from cumulant.goals.words import MAX_CHARACTERS
from cumulant.web import schemas
from cumulant.web.api import OFFERS
from cumulant.web.from_scratch import from_scratch
from cumulant.web.server import MAX_BYTES, create_app
from cumulant.worlds.episodes import play
from cumulant.worlds.room import Room
from cumulant.worlds.spriteworld import Spriteworld
from dqn_steps import dqn_steps
from web_server import PHRASE, PLAN, ask, serving

DQN = {name: dqn_steps()[name] for name in ("most", "source")}
LEG = {"phrase": "agent left", "steps": 1}
JARGON = re.compile(
    "Input should|valid (integer|number|list)|_error|_type|body|[a-z]\\.[0-9]|Field required|Extra inputs"
)


def test_the_world_says_how_to_draw_it(client):
    world = client.get("/api/world").json()
    assert [sprite["name"] for sprite in world["sprites"]] == ["agent", "square", "circle"]
    assert world["sprites"][1]["colour"] == "#56b4e9"
    assert len(world["sprites"][1]["outline"]) == 4


def test_a_phrase_is_explained(client):
    parsed = client.post("/api/parse", json={"phrase": "get the square to the top left or the circle right"}).json()
    assert parsed["canonical"] == parsed["brief"] == "square top left or circle right"
    (stage,) = parsed["stages"]
    assert [[c["words"] for c in clause] for clause in stage["clauses"]] == [["left", "top"], ["right"]]
    assert np.shape(stage["weights"]) == (2, 6, 3)


def test_a_plan_is_explained_stage_by_stage(client):
    parsed = client.post("/api/parse", json={"phrase": PLAN}).json()
    assert parsed["canonical"] == PLAN
    assert [stage["canonical"] for stage in parsed["stages"]] == PLAN.split(" then ")
    first, last = (
        [[(c["sprite"], c["words"]) for c in stage["clauses"][0]], stage["avoid"]] for stage in parsed["stages"]
    )
    assert first == [[("square", "left")], []]
    assert last[0] == [("agent", "not bottom"), ("square", "left"), ("circle", "top")]  # what is kept, and outside
    assert [[(c["sprite"], c["words"]) for c in clause] for clause in last[1]] == [[("agent", "bottom")]]


def test_a_canonical_phrase_is_understood_however_long_it_is(client):
    even = ",".join(str(b) for b in range(2, 100, 2))
    phrase = " or ".join(f"square x {even}/99 y {b}/99 and circle x {b}/99" for b in range(1, 61))
    canonical = client.post("/api/parse", json={"phrase": phrase}).json()["canonical"]
    assert 5 * MAX_CHARACTERS < len(canonical) < MAX_BYTES
    assert client.post("/api/parse", json={"phrase": canonical}).json()["canonical"] == canonical


def test_an_episode_shows_what_the_agent_has_in_mind(client):
    episode = client.post("/api/episode", json={"phrase": PHRASE, "seed": 3}).json()
    steps = len(episode["actions"])
    assert episode["success"]
    assert len(episode["thoughts"]) == steps
    assert np.shape(episode["positions"]) == np.shape(episode["bins"]) == (steps + 1, 6)
    assert episode["met"][-1] == [0b111]
    assert all(met != [0b111] for met in episode["met"][:-1])
    for thought in episode["thoughts"]:  # it follows a policy for what the goal names, at its best bin
        assert (thought["feature"], thought["bin"]) in {(2, 0), (3, 2), (4, 2)}
        row = thought["values"][thought["feature"]]
        assert row[thought["bin"]] == max(row)


def test_a_plans_stages_are_reached_one_after_the_other(client):
    episode = client.post("/api/episode", json={"phrase": PLAN, "seed": 11}).json()
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


def test_a_plan_and_a_seed_mean_the_same_episode_as_in_python(client, player):
    library, plan = player.library, player.library.plan(PLAN)
    policy = library.gpi()(library.world, library.guide(plan))
    theirs = jax.jit(lambda key: play(library.world, policy, plan, key))(jax.random.key(11))
    ours = client.post("/api/episode", json={"phrase": PLAN, "seed": 11}).json()
    assert ours["actions"] == theirs.actions[: theirs.steps].tolist()
    assert (ours["success"], ours["stages"][-1]) == (bool(theirs.success), int(theirs.progress.stage))


def test_a_plan_may_begin_with_a_later_stage(client):
    start = [0.5, 0.5, 0.1, 0.5, 0.5, 0.5]
    episode = client.post(
        "/api/episode", json={"phrase": PHRASE + " then agent left", "start": start, "stage": 1}
    ).json()
    assert episode["stages"][0] == 1
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
def test_what_breaks_a_plan_is_said(client, stage, positions, action, violation):
    request = {"phrase": PLAN, "stage": stage, "positions": positions, "action": action}
    stepped = client.post("/api/step", json=request).json()
    assert (stepped["violation"], stepped["stages"], stepped["success"]) == (violation, [stage, stage], False)


@pytest.mark.parametrize("method", ["plain", "oracle", "random"])
def test_others_play_from_the_same_start(client, method):
    ours, theirs = (
        client.post("/api/episode", json={"phrase": PHRASE, "seed": 3, "method": name}).json()
        for name in ("committed", method)
    )
    assert ours["positions"][0] == theirs["positions"][0]
    assert (theirs["thoughts"] is not None) == (method == "plain")


def test_a_start_of_ones_own_is_taken_exactly(client):
    start = [0.1, 0.9, 0.5, 0.25, 0.75, 0.5]
    episode = client.post("/api/episode", json={"phrase": PHRASE, "start": start}).json()
    assert episode["positions"][0] == [float(np.float32(x)) for x in start]


def test_a_goal_is_changed_on_the_way(client):
    first = client.post("/api/episode", json={"phrase": "square right", "seed": 3}).json()
    assert len(first["actions"]) > 4
    leg = {"phrase": "square right", "steps": 4}
    changed = client.post("/api/episode", json={"phrase": "circle top", "seed": 3, "after": [leg]}).json()
    assert changed["positions"][0] == first["positions"][4]
    there = client.post("/api/episode", json={"phrase": "circle top", "seed": 3, "start": first["positions"][4]}).json()
    assert changed == there  # with sprites, a start says as much
    assert changed["success"]
    plan = {"phrase": "square left then " + PHRASE, "stage": 1, "steps": 2}
    again = client.post("/api/episode", json={"phrase": "agent left", "seed": 3, "after": [leg, plan]}).json()
    of_the_plan = {"phrase": plan["phrase"], "seed": 3, "stage": 1, "after": [leg]}
    assert again["positions"][0] == client.post("/api/episode", json=of_the_plan).json()["positions"][2]


def test_a_person_can_step(client):
    request = {"phrase": "agent right", "positions": [0.6, 0.5, 0.6, 0.5, 0.1, 0.1], "action": 7}
    stepped = client.post("/api/step", json=request).json()
    np.testing.assert_allclose(stepped["positions"][1], [0.65, 0.5, 0.65, 0.5, 0.1, 0.1], atol=1e-6)
    assert (stepped["success"], stepped["met"]) == (False, [[0], [0]])


@pytest.mark.parametrize("phrase", [PHRASE, "square left then circle right"])
def test_success_over_many_seeds_is_that_of_each(client, phrase):
    found = client.post("/api/evaluate", json={"phrase": phrase, "seed": 40}).json()
    assert len(found["success"]) == 25
    one = client.post("/api/episode", json={"phrase": phrase, "seed": 43}).json()
    assert (found["success"][3], found["steps"][3]) == (one["success"], len(one["actions"]))


def test_rewards_teach_what_the_words_mean(client):
    taught = client.post("/api/teach", json={"phrase": "square x 1,2/6 y 5,6/6"}).json()
    lessons = taught["lessons"]
    assert taught["nothing"] == ""
    assert [lesson["steps"] for lesson in lessons] == [250, 500, 1000, 2000]
    weights = np.array(lessons[-1]["weights"])
    assert {tuple(where) for where in np.argwhere(weights > 0.5 * weights.max())} == {(2, 0), (3, 2)}
    taught = {"phrase": "square x 1,2/6 y 5,6/6", "weights": weights.tolist(), "seed": 5}
    assert client.post("/api/episode", json=taught).json()["success"]


@pytest.mark.parametrize(
    ("phrase", "why"),
    [
        ("square x 1/99 y 1/99 and circle x 99/99 y 99/99", "No reward was found in 2,000 steps: let more places earn"),
        ("square anywhere", "All of 2,000 steps were rewarded"),
    ],
)
def test_a_lesson_that_teaches_nothing_says_so(client, phrase, why):
    taught = client.post("/api/teach", json={"phrase": phrase}).json()
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
def test_what_dqn_needed_is_told_of_the_classes_it_was_measured_for(client, phrase, steps):
    told = client.post("/api/parse", json={"phrase": phrase}).json()["from_scratch"]
    assert told == (None if steps == "not measured" else DQN | {"steps": steps})
    assert from_scratch(Spriteworld(step_size=0.2), parse("agent left")) is None
    assert from_scratch(Room(), parse("lamp on", Room.feature_names)) is None


def test_what_is_told_of_dqn_is_what_was_recorded():
    written = resources.files("cumulant.web") / "dqn_steps.json"
    assert json.loads(written.read_text()) == dqn_steps()


def test_what_takes_longer_costs_more():
    episode = {"phrase": PHRASE, "after": [LEG] * 2}
    costs = {"teach": {"phrase": PHRASE, "steps": 10_000}, "episode": episode, "psi": {"episode": episode, "action": 0}}
    found = {kind: OFFERS[kind].cost_of(OFFERS[kind].request(**request)) for kind, request in costs.items()}
    assert found == {kind: OFFERS[kind].cost * (5 if kind == "teach" else 3) for kind in costs}
    assert OFFERS["step"].cost_of(schemas.StepRequest(phrase="", positions=[], action=0)) == 1


def test_psi_is_learnt_on_the_diagonal_and_the_lemmas_elsewhere(client):
    here = [0.1, 0.9, 0.5, 0.25, 0.75, 0.5]
    psi = client.post("/api/psi", json={"positions": here, "action": 3}).json()
    learnt, lemma, played = (np.array(psi[name], float) for name in ("learnt", "lemma", "played"))
    own = np.kron(np.eye(6), np.ones((3, 3))).astype(bool)
    assert np.isfinite(learnt[own]).all()
    assert np.isnan(learnt[~own]).all()
    assert np.isnan(lemma[own]).all()
    np.testing.assert_array_equal(lemma[0, 6:9], [0, 1, 0])  # the square is in the centre
    np.testing.assert_allclose(played.reshape(18, 6, 3).sum(axis=2), 1, atol=0.03)  # every feature is somewhere
    assert np.abs(learnt - played)[own].mean() < 0.15


def test_an_episode_becomes_a_gif(client):
    made = client.post("/api/gif", json={"phrase": "agent left", "seed": 3})
    assert made.headers["content-type"] == "image/gif"
    assert made.content.startswith(b"GIF89a")


@pytest.mark.parametrize(
    ("kind", "request_", "message"),
    [
        ("parse", {"phrase": "get the sqare left"}, "unknown word 'sqare'; did you mean 'square'?"),
        ("parse", {"phrase": ""}, "the phrase names no goal"),
        ("parse", {"phrase": "left " * 12_000}, "words, which are all that is read"),
        ("parse", {"phrase": PHRASE, "weights": [[1]]}, "weights are 6 rows of 3 numbers"),
        ("parse", {"phrase": "keep square left then square right"}, "contradicts itself: stage 2 breaks what is kept"),
        ("parse", {"phrase": "square left then"}, "the phrase ends too early"),
        ("parse", {"phrase": " then ".join(["agent left"] * 9)}, "plays plans of up to 8 stages, and this has 9"),
        ("parse", {"phrase": PLAN, "weights": [[0.0] * 3] * 6}, "this phrase is a plan"),
        ("teach", {"phrase": PLAN}, "this phrase is a plan, where a plain goal is asked for"),
        ("episode", {"phrase": PLAN, "stage": 2}, "there is no stage 2"),
        ("episode", {"phrase": PHRASE, "start": [0.5]}, "positions are 6 numbers"),
        ("episode", {"phrase": "square x 1/11", "method": "oracle"}, "cannot aim at 11 bins"),
        ("episode", {"phrase": PHRASE, "weights": [[0.0] * 3] * 6}, "these weights are all 0"),
        ("episode", {"phrase": PHRASE, "after": [LEG | {"phrase": "sqare left"}]}, "unknown word 'sqare'"),
        ("episode", {"phrase": PHRASE, "after": [LEG | {"stage": 1}]}, "there is no stage 1"),
        ("episode", {"phrase": PHRASE, "after": [LEG | {"steps": 99}]}, "the episode of 'agent left' is over after "),
        ("episode", {"phrase": PHRASE, "after": [LEG] * 9}, "a goal can be changed 8 times on the way"),
        ("step", {"phrase": PHRASE, "positions": [0.5] * 6, "action": 8}, "action: counted from 0, the last is 7"),
        ("parse", {}, "phrase is missing"),
        ("parse", {"phrase": 1}, "phrase has to be text"),
        ("parse", {"phrase": None}, "phrase has to be text"),
        ("parse", {"phrase": PHRASE, "extra": 1}, "extra is nothing that this request knows"),
        ("parse", {"phrase": PHRASE, "a\n" * 99: 1}, r"'a\na\na\n"),
        ("parse", {"phrase": PHRASE, "weights": 1}, "weights has to be a list"),
        ("parse", {"phrase": PHRASE, "weights": [[0, "1"]]}, "entry 2 of entry 1 of weights has to be a number"),
        ("parse", {"phrase": PHRASE, "weights": [[99]]}, "entry 1 of entry 1 of weights has to be 10 or less"),
        ("parse", {"phrase": PHRASE, "weights": [[0]] * 100}, "weights has at most 99 entries"),
        ("episode", {"phrase": PHRASE, "seed": -1}, "seed has to be 0 or more"),
        ("episode", {"phrase": PHRASE, "seed": 2**32}, "seed has to be below 4,294,967,296"),
        ("episode", {"phrase": PHRASE, "seed": 10**40}, "seed has to be "),
        ("episode", {"phrase": PHRASE, "seed": 0.5}, "seed has to be a whole number"),
        ("episode", {"phrase": PHRASE, "seed": True}, "seed has to be a whole number"),
        ("episode", {"phrase": PHRASE, "seed": "3"}, "seed has to be a whole number"),
        ("episode", {"phrase": PHRASE, "start": "left"}, "start has to be a list"),
        ("episode", {"phrase": PHRASE, "start": [True] * 6}, "entry 1 of start has to be a number"),
        ("episode", {"phrase": PHRASE, "start": [0, 0, 2.0]}, "entry 3 of start has to be 1 or less"),
        ("episode", {"phrase": PHRASE, "start": [0.5] * 21}, "start has at most 20 entries"),
        ("episode", {"phrase": PHRASE, "stage": 8}, "stage has to be below 8"),
        ("episode", {"phrase": PHRASE, "method": "best"}, "method has to be 'committed', 'plain', 'oracle' or"),
        ("episode", {"phrase": PHRASE, "after": [{"phrase": PHRASE}]}, "steps of entry 1 of after is missing"),
        ("evaluate", {"phrase": PHRASE, "method": 1}, "method has to be "),
        ("frames", {"phrase": PHRASE, "after": 1}, "after has to be a list"),
        ("step", {"phrase": PHRASE, "action": 0}, "positions is missing"),
        ("step", {"phrase": PHRASE, "positions": [0, 1, 0, 1, 0, 1], "action": False}, "action has to be a whole"),
        ("teach", {"phrase": PHRASE, "steps": 3000}, "steps has to be 2000 or 10000"),
        ("teach", {"phrase": PHRASE, "weights": []}, "weights is nothing that this request knows"),
        ("psi", {"positions": [0.5] * 6}, "action is missing"),
        ("psi", {"positions": [0.5] * 6, "action": -1}, "action has to be 0 or more"),
        ("psi", {"episode": {"phrase": PHRASE, "seed": -1}, "action": 0}, "seed of episode has to be 0 or more"),
    ],
)
def test_what_makes_no_sense_is_said_in_the_same_words_on_both_ways(client, address, kind, request_, message):
    answer = client.post(f"/api/{kind}", json=request_)
    assert answer.status_code == 422
    with connect(f"ws://{address}/api/socket") as socket:
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
def test_what_is_no_request_is_told_in_a_sentence(client, method, path, content, status, message):
    headers = {"Content-Type": "application/json"}
    answer = client.request(method, path, content=content, headers=headers)
    assert (answer.status_code, answer.json()["message"]) == (status, message)


def test_a_message_that_is_no_call_is_told_in_a_sentence(address):
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


def test_a_problem_points_at_the_word_and_suggests_another(client):
    problem = client.post("/api/parse", json={"phrase": "get the sqare left"}).json()
    assert (problem["span"], problem["suggestion"]) == ([8, 13], "square")


def test_the_first_action_comes_within_200_ms(address):
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


def test_the_api_keeps_what_its_description_promises(player):
    checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
    told = set()
    with serving(create_app(player, warm_up=False)) as address:
        schema = schemathesis.openapi.from_url(f"http://{address}/openapi.json")
        for operation in (result.ok() for result in schema.get_all_operations()):

            @settings(max_examples=15, suppress_health_check=list(HealthCheck), database=None)
            @given(case=operation.as_strategy())
            def promised(case):
                case.call_and_validate(checks=checks)

            promised()
            told.add(operation.path)
    assert told == {"/api/world", "/api/gif", *(f"/api/{name}" for name in OFFERS)}
