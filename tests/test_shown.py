"""What a person sees of things: films in notebooks and files, and what the interpreter prints."""

import base64
import dataclasses
import io
import re

import jax
import numpy as np
import pytest
from PIL import Image

import cumulant
from conftest import THIRDS, Sliders
from cumulant.config import FreePlay
from cumulant.features.coordinates import Inputs, entangled_features
from cumulant.freeplay.learning import make_network
from cumulant.goals.suites import suite
from cumulant.storage import Unwritable
from cumulant.transfer.evaluation import Success
from cumulant.transfer.library import Library
from cumulant.worlds.episodes import Policy
from cumulant.worlds.films import Film, gif


@pytest.fixture(scope="module")
def library():
    return Library.load(THIRDS)


@pytest.fixture(scope="module")
def film(library):
    return library.watch("square left", seed=3)


def test_a_film_is_the_episode_of_its_seed(library, film):
    """The first that is reached in 20 to 40 steps; Python plays the same one."""
    task = library.task("square left")
    for seed in range(3, film.seed + 1):
        episode = cumulant.play(library.world, library.policy(task), task, jax.random.key(seed))
        assert (20 <= int(episode.steps) <= 40) == (seed == film.seed)
    assert (film.success, film.steps) == (bool(episode.success), int(episode.steps))
    assert film.frames.shape == (film.steps + 1, 320, 320, 3)
    assert repr(film) == f"Film of 'square left': reached in {film.steps} steps, seed {film.seed}"


def test_a_film_shows_itself_in_a_notebook_and_is_what_is_saved(film, tmp_path):
    shown = film._repr_html_()
    assert "reached in" in shown
    data = base64.b64decode(re.search(r"data:image/gif;base64,([^\"]+)", shown)[1])
    assert Image.open(io.BytesIO(data)).n_frames == film.steps + 1
    film.save(tmp_path / "new" / "mine.gif")
    assert (tmp_path / "new" / "mine.gif").read_bytes() == data


def test_what_a_film_is_called_is_text_and_no_markup(film):
    shown = dataclasses.replace(film, caption='"><script>alert(1)</script>')._repr_html_()
    assert "<script>" not in shown
    assert shown.count("<") == 1


def test_what_is_seen_for_a_while_alone_keeps_its_colour():
    shades = np.linspace(0, 255, 64).astype(np.uint8)
    frames = np.repeat(np.broadcast_to(shades[:, None, None], (1, 64, 64, 3)), 31, axis=0).copy()
    blue, place = (20, 90, 250), (slice(10, 14), slice(30, 34))
    frames[8:22, *place] = blue
    told = gif([Film("grey", frames, None)])
    with Image.open(io.BytesIO(told)) as film:
        film.seek(15)
        shown = np.asarray(film.convert("RGB"), int)
    assert (np.abs(shown - blue).max(axis=2) < 16).sum() == 16


def test_a_film_replaces_a_gif_alone(film, tmp_path):
    with pytest.raises(ValueError, match=r"let the name end in \.gif, which mine\.png does not"):
        film.save(tmp_path / "mine.png")
    with pytest.raises(Unwritable, match="it is a folder"):
        film.save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_weights_are_watched_until_nothing_moves(library):
    film = library.watch(library.weights("circle top"), seed=1)
    assert film.success is None
    assert 1 < len(film.frames) <= library.world.max_steps + 1
    assert (film.frames[-2] != film.frames[-1]).any()
    assert repr(film) == f"Film of 'weights': played for {film.steps} steps, seed {film.seed}"


def test_a_world_that_cannot_be_drawn_cannot_be_watched():
    config = FreePlay(width=8)
    library = Library(Sliders(), config, make_network(config, Inputs(2), 5, jax.random.key(0)))
    with pytest.raises(ValueError, match="a world of kind Sliders cannot be drawn: it has no `render`"):
        library.watch("first left")
    assert repr(library) == "Library(Sliders: first; 2 features x 3 bins, 6 skills; free play 10,240,000 steps)"


def test_what_the_interpreter_prints_fits_a_line(library):
    plan = library.plan("keep square left then agent top without agent right")
    sprites = "Spriteworld: agent, square, circle"
    steps = f"free play {library.config.env_steps:,} steps"
    entangled = dataclasses.replace(library, features=entangled_features(6, 0))
    shown = {
        f"Library({sprites}; 6 features x 3 bins, 18 skills; {steps})": library,
        f"Library({sprites}; 6 entangled features x 3 bins, 18 skills; {steps})": entangled,
        "Task('square top left')": library.task("get the square to the top left"),
        "Task('impossible')": cumulant.Task(library.world.feature_names, ()),
        "Plan('keep square left then agent top without agent right')": plan,
        "Stage('agent top without agent right')": plan.stages[1],
        "Policy(circle left)": library.policy("circle left"),
        "Policy(weights)": library.policy(library.weights("circle left")),
        "Policy(committed GPI)": library.gpi()(library.world, library.weights("circle left")),
        "Policy(random_policy)": cumulant.random_policy(library.world),
        "Policy(still)": Policy(lambda obs: (), still),
        "Success(1.000 [0.982, 1.000] over 200 episodes, 19.5 steps)": Success(1.0, (0.982, 1.0), 19.5, 1, 200),
        "Success(0.000 [0.000, 0.005] over 768 episodes of 3 tasks)": Success(0.0, (0.0, 0.00479), None, 3, 768),
        "Success(0.500 [0.068, 0.932] over 4 episodes, 3.0 steps, violated 0.250)": Success(
            0.5, (0.0676, 0.9324), 3.0, 1, 4, 0.25
        ),
        "Film of 'x': not reached in 1 step": Film("x", np.zeros((2, 4, 4, 3), np.uint8), False),
    }
    for line, thing in shown.items():
        assert repr(thing) == line


def still(memory, obs, key):
    return memory, 0


def test_a_long_goal_is_cut(library):
    longest = ~suite(library.world.feature_names, 1)["conjunction"][0] & ~library.task("circle top or agent left")
    for shown in (repr(longest), repr(library.policy(longest))):
        assert len(shown) < 100
        assert "…" in shown
