"""What the page asks and is told in worlds without sprites: a room, and a crane that runs on the host."""

import base64
import io
import threading
from dataclasses import replace

import httpx
import jax
import jax.monitoring
import numpy as np
import pytest
from PIL import Image

import cumulant
from cumulant.goals.feature import described
from cumulant.web.api import world_of
from cumulant.web.episodes import Leg, TooShort
from cumulant.web.examples import examples_for
from cumulant.web.player import NotForThePage, Player
from cumulant.web.server import create_app
from other_worlds import Crane, Unlit, crane, crane_library, room_library
from web_server import serving

PHRASE = "lamp on and temperature warm"
PLAN = "keep lamp on then temperature warm without volume loud"
UP_AND_DOWN = "load down then load up"


@pytest.fixture(scope="module")
def room_player():
    return Player(room_library())


@pytest.fixture(scope="module")
def crane_player():
    return Player(crane_library())


@pytest.fixture(scope="module")
def room(room_player):
    with (
        serving(create_app(room_player, warm_up=False)) as address,
        httpx.Client(base_url=f"http://{address}/api", timeout=120) as client,
    ):
        yield lambda kind, **request: client.post(kind, json=request).json()


@pytest.fixture(scope="module")
def lifted(crane_player):
    with (
        serving(create_app(crane_player, warm_up=False)) as address,
        httpx.Client(base_url=f"http://{address}/api", timeout=120) as client,
    ):
        yield client


def test_a_world_is_described_by_its_bars(lifted, room_player):
    world = world_of(room_player)
    assert (world.sprites, world.draws, world.methods) == ([], False, ["committed", "plain", "random"])
    warmth = world.bars[0]
    assert (warmth.name, warmth.low, warmth.high, warmth.unit) == ("temperature", 10, 30, "°C")
    assert world.bars[1].regions == ["off", "on"]
    assert world.bin_names == [
        ["cold", "mild", "warm"],
        ["off", "2/3", "on"],
        ["shut", "half", "open"],
        ["quiet", "soft", "loud"],
    ]
    assert world.actions[2] == "lamp on"
    world = lifted.get("world").json()
    assert (world["bars"][0]["name"], world["draws"], world["actions"][0]) == ("load height", True, "action 0")


@pytest.mark.parametrize(
    "names", [cumulant.Room.feature_names, ("dial",), ("hand_x", "hand_y"), ("joint_0", "joint_1", "gripper_open")]
)
def test_examples_are_in_a_worlds_own_words(names):
    found = examples_for(names)
    assert len(found) >= 4
    for phrase in found:
        assert cumulant.parse_plan(phrase, names)
    assert any(" then " in phrase for phrase in found)


def test_examples_of_the_papers_world_are_of_its_sprites():
    assert examples_for(cumulant.Spriteworld().feature_names)[0] == "square top left and circle right"
    assert examples_for(cumulant.Spriteworld(("star",)).feature_names)[1] == "star left"


def test_a_goal_is_reached_and_its_conditions_are_told(room):
    parsed = room("parse", phrase=PHRASE)
    assert [(c["feature"], c["words"]) for c in parsed["stages"][0]["clauses"][0]] == [(0, "warm"), (1, "on")]
    episode = room("episode", phrase=PHRASE, seed=1)
    assert episode["success"]
    assert episode["met"][-1] == [0b11]
    last = episode["positions"][-1]
    assert last[0] >= 2 / 3
    assert last[1] >= 1 / 2
    assert len(episode["thoughts"]) == len(episode["actions"]) > 0


def test_a_plans_stages_and_its_failures_are_told_in_plain_words(room):
    assert [stage["canonical"] for stage in room("parse", phrase=PLAN)["stages"]] == PLAN.split(" then ")
    told = [room("episode", phrase=PLAN, seed=seed, method="random")["violation"] for seed in range(12)]
    assert {violation for violation in told if violation} <= {"lost lamp on", "entered volume loud"}
    assert any(told)


@pytest.mark.parametrize(
    ("library", "phrase"), [(room_library, PLAN), (crane_library, UP_AND_DOWN), (crane_library, "load up")]
)
def test_a_phrase_and_a_seed_mean_the_same_episode_as_in_python(library, phrase):
    library, seed = library(), 11
    goal = library.goal(phrase)
    policy = library.policy(goal)
    theirs = jax.jit(lambda key: cumulant.play(library.seen, policy, goal, key))(jax.random.key(seed))
    player = Player(library)
    ours = player.episode(player.aim(phrase), seed, None, "committed")
    assert ours.actions.tolist() == theirs.actions[: theirs.steps].tolist()
    assert len(ours.actions) > 0
    assert ours.success == bool(theirs.success)


@pytest.mark.parametrize("phrase", ["load half", UP_AND_DOWN])
def test_success_over_many_seeds_is_that_of_each(crane_player, phrase):
    aim = crane_player.aim(phrase)
    success, steps = crane_player.outcomes(aim, 2**32 - 6, "committed")  # after the largest seed comes 0
    assert len(success) == len(steps) == 25
    for i in (0, 4, 7, 24):
        one = crane_player.episode(aim, (2**32 - 6 + i) % 2**32, None, "committed")
        assert (success[i], steps[i]) == (one.success, len(one.actions))


def test_frames_show_the_moments_of_an_episode(lifted, crane_player):
    request = {"phrase": UP_AND_DOWN, "seed": 3}
    episode, film = (lifted.post(kind, json=request).json() for kind in ("episode", "frames"))
    assert (film["every"], film["first"], len(film["images"])) == (1, 0, len(episode["positions"]))
    for image, (height,) in zip(film["images"], episode["positions"], strict=True):
        with Image.open(io.BytesIO(base64.b64decode(image.partition(",")[2]))) as picture:
            column = np.asarray(picture)[:, 160, 2]
        assert (column < 20).argmax() / 320 == pytest.approx((1 - height) * 64 / 84, abs=0.03)  # the block has no blue
    gif = lifted.post("gif", json=request)
    assert gif.content.startswith(b"GIF89a")


def test_of_a_long_episode_some_frames_are_drawn(crane_player):
    episode = crane_player.episode(crane_player.aim("load up then load down then load up"), 0, None, "random")
    assert len(episode.positions) > 20
    frames = crane_player.frames(episode, 10)
    assert len(frames.pictures) <= 10
    assert frames.first + frames.every * (len(frames.pictures) - 1) == len(episode.positions) - 1


def test_bands_teach_a_goal(room):
    lessons = room("teach", phrase="temperature 3/3 and lamp 2/2")["lessons"]
    weights = np.array(lessons[-1]["weights"])
    assert weights[0].argmax() == weights[1].argmax() == 2
    learnt = room("episode", phrase="temperature 3/3 and lamp 2/2", weights=weights.tolist(), seed=1)
    assert learnt["success"]


@pytest.mark.parametrize(
    ("library", "first", "then"),
    [(room_library, PHRASE, "keep lamp off then blind shut"), (crane_library, UP_AND_DOWN, "load half")],
)
def test_a_goal_is_changed_on_the_way(library, first, then):
    player = Player(library())
    aim, other = player.aim(first), player.aim(then)
    tried = ((seed, player.episode(aim, seed, None, "committed")) for seed in range(9))
    seed, before = next((seed, episode) for seed, episode in tried if len(episode.actions) > 2)
    legs = [Leg(aim, 0, 2), Leg(other, 0, 0)]
    changed = player.episode(other, seed, None, "committed", after=legs)
    np.testing.assert_array_equal(changed.positions[0], before.positions[2])
    assert changed.success
    again = player.episode(other, seed, None, "committed", after=legs)
    np.testing.assert_array_equal(again.positions, changed.positions)
    with pytest.raises(TooShort, match="is over after"):
        player.episode(other, seed, None, "committed", after=[Leg(aim, 0, 999)])


def test_bands_are_the_librarys_bins_or_the_names_of_values(room_player):
    assert [bar.bins for bar in world_of(room_player).bars] == [
        ["cold", "mild", "warm"],
        ["off", "on"],
        ["shut", "half", "open"],
        ["quiet", "soft", "loud"],
    ]
    library = room_library()
    finer = Player(replace(library, config=replace(library.config, bins=9)))
    assert [bar.bins[:2] for bar in world_of(finer).bars] == [["1/9", "2/9"], ["off", "on"], *[["1/9", "2/9"]] * 2]


def test_psi_is_that_of_a_step_of_the_episode(room, lifted):
    of = {"phrase": PHRASE, "seed": 1}
    positions = room("episode", **of)["positions"]
    psi = room("psi", episode=of, step=1, action=0)
    lemma, played = (np.array(psi[name], float).reshape(4, 3, 4, 3) for name in ("lemma", "played"))
    here = np.minimum(2, np.floor(3 * np.array(positions[1]))).astype(int)
    np.testing.assert_array_equal(lemma[0, 0, 1:].argmax(axis=1), here[1:])
    np.testing.assert_allclose(played.sum(axis=3), 1, atol=0.03)
    psi = lifted.post("psi", json={"episode": {"phrase": "load up"}, "action": 1}).json()
    assert np.isfinite(np.array(psi["learnt"], float)).all()
    assert set(np.ravel(psi["played"])) == {None}  # no state on the host can be gone on from twice


@pytest.mark.parametrize(
    ("kind", "request_", "message"),
    [
        ("parse", {"phrase": "lamb on"}, "unknown word 'lamb'; did you mean 'lamp'?"),
        ("parse", {"phrase": "lamp warm"}, "'warm' does not fit: lamp has off, on"),
        ("episode", {"phrase": PHRASE, "start": [0.5] * 4}, "positions are of sprites, and this world has none"),
        ("step", {"phrase": PHRASE, "positions": [0.5] * 4, "action": 0}, "positions are of sprites"),
        ("episode", {"phrase": PHRASE, "method": "oracle"}, "this world has no oracle"),
        ("psi", {"episode": {"phrase": PHRASE}, "step": 999, "action": 0}, "step: the episode has"),
        ("psi", {"episode": {"phrase": PHRASE}, "action": 8}, "action: counted from 0, the last is 7"),
        ("psi", {"action": 0}, "a state is given by positions, or by an episode"),
        ("frames", {"phrase": PHRASE}, "this world cannot be drawn"),
        ("gif", {"phrase": PHRASE}, "this world cannot be drawn"),
    ],
)
def test_what_makes_no_sense_here_is_said(room, kind, request_, message):
    assert message in room(kind, **request_)["message"]


def test_other_goals_compile_nothing_new(crane_player, room_player):
    cases = [(crane_player, "load up", "not load half"), (room_player, PHRASE, "blind 3/7 or volume above 4.5")]
    cases += [(crane_player, UP_AND_DOWN, "load half then load down then load up"), (room_player, PLAN, PLAN[5:])]
    told = []
    for player, first, _ in cases:
        for seed in range(4):  # some of which do not begin in the goal
            player.episode(player.aim(first), seed, None, "committed")
        player.outcomes(player.aim(first), 0, "committed")
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: told.append(name))
    for player, _, other in cases:
        for seed in range(4):
            player.episode(player.aim(other), seed, None, "committed")
        player.outcomes(player.aim(other), 7, "committed")
    assert not [name for name in told if "backend_compile" in name]


def test_several_at_once_leave_each_others_episodes_alone(crane_player):
    aim, found = crane_player.aim(UP_AND_DOWN), {}

    def watch(seed):
        found[seed] = crane_player.episode(aim, seed, None, "committed").actions.tolist()

    threads = [threading.Thread(target=watch, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {seed: crane_player.episode(aim, seed, None, "committed").actions.tolist() for seed in range(8)}


class Stuck(Crane):
    """A crane that breaks."""

    def step(self, action):
        raise RuntimeError("the cable has snapped")


def test_an_environment_that_fails_is_told_in_one_line():
    player = Player(replace(crane_library(), world=crane(Stuck)))
    with serving(create_app(player, warm_up=False)) as address:
        for method in ("committed", "random"):
            request = {"phrase": UP_AND_DOWN, "method": method}
            answer = httpx.post(f"http://{address}/api/episode", json=request, timeout=60)
            assert answer.status_code == 500
            assert "Stuck raised RuntimeError: the cable has snapped" in answer.json()["message"]


def test_a_world_that_nobody_can_look_at_has_bars_alone():
    assert not Player(replace(crane_library(), world=crane(Unlit))).draws


def test_a_world_that_words_cannot_name_is_refused_in_one_line():
    library = room_library()
    names = tuple(replace(each, words=("on", "on")) for each in described(library.world.feature_names))
    with pytest.raises(NotForThePage, match="no phrase can tell the regions"):
        Player(replace(library, world=replace_names(library.world, names)))


def replace_names(world, names):
    """The world with other descriptions of its features."""
    return type("Renamed", (type(world),), {"feature_names": names})()


def test_every_program_is_warmed_up(room_player):
    assert [work() is not None for work in room_player.warm_ups()].count(False) == 0
