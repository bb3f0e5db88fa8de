"""What a person sees of things: films in notebooks and files, and what the interpreter prints."""

import base64
import dataclasses
import io
import re

import jax
import numpy as np
import pytest
from conftest import THIRDS, Sliders
from PIL import Image

import cumulant
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


def test_watch_shows_the_episode_of_its_seed(library, film):
    """The first that is reached in 20 to 40 steps; Python plays the same one."""
    task = library.task("square left")
    for seed in range(3, film.seed + 1):
        episode = cumulant.play(library.world, library.policy(task), task, jax.random.key(seed))
        assert (20 <= int(episode.steps) <= 40) == (seed == film.seed)
    assert (film.success, film.steps) == (bool(episode.success), int(episode.steps))
    assert film.frames.shape == (film.steps + 1, 320, 320, 3)
    assert f"reached in {film.steps} steps, seed {film.seed}" in repr(film)


def test_film_shows_in_a_notebook_what_it_saves(film, tmp_path):
    shown = film._repr_html_()
    assert "reached in" in shown
    data = base64.b64decode(re.search(r"data:image/gif;base64,([^\"]+)", shown)[1])
    assert Image.open(io.BytesIO(data)).n_frames == film.steps + 1
    film.save(tmp_path / "new" / "mine.gif")
    assert (tmp_path / "new" / "mine.gif").read_bytes() == data
    markup = dataclasses.replace(film, caption='"><script>alert(1)</script>')._repr_html_()
    assert "<script>" not in markup
    assert markup.count("<") == 1


def test_gif_keeps_the_colour_of_brief_things():
    shades = np.linspace(0, 255, 64).astype(np.uint8)
    frames = np.repeat(np.broadcast_to(shades[:, None, None], (1, 64, 64, 3)), 31, axis=0).copy()
    blue, place = (20, 90, 250), (slice(10, 14), slice(30, 34))
    frames[8:22, *place] = blue
    told = gif([Film("grey", frames, None)])
    with Image.open(io.BytesIO(told)) as film:
        film.seek(15)
        shown = np.asarray(film.convert("RGB"), int)
    assert (np.abs(shown - blue).max(axis=2) < 16).sum() == 16


def test_film_save_replaces_a_gif_alone(film, tmp_path):
    with pytest.raises(ValueError, match=r"let the name end in \.gif, which mine\.png does not"):
        film.save(tmp_path / "mine.png")
    with pytest.raises(Unwritable, match="it is a folder"):
        film.save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_watch_ends_when_nothing_moves_under_weights(library):
    film = library.watch(library.weights("circle top"), seed=1)
    assert film.success is None
    assert 1 < len(film.frames) <= library.world.max_steps + 1
    assert (film.frames[-2] != film.frames[-1]).any()
    assert f"played for {film.steps} steps, seed {film.seed}" in repr(film)


def test_watch_refuses_worlds_without_render():
    config = FreePlay(width=8)
    library = Library(Sliders(), config, make_network(config, Inputs(2), 5, jax.random.key(0)))
    with pytest.raises(ValueError, match="a world of kind Sliders cannot be drawn: it has no `render`"):
        library.watch("first left")
    assert "Sliders: first; 2 features x 3 bins, 6 skills" in repr(library)


def still(memory, obs, key):
    return memory, 0


def test_repr_tells_the_essential_in_one_line(library):
    plan = library.plan("keep square left then agent top without agent right")
    longest = ~suite(library.world.feature_names, 1)["conjunction"][0] & ~library.task("circle top or agent left")
    told = [  # a thing, and what its line tells
        (library, "Spriteworld: agent, square, circle; 6 features x 3 bins, 18 skills"),
        (library, f"free play {library.config.env_steps:,} steps"),
        (dataclasses.replace(library, features=entangled_features(6, 0)), "6 entangled features"),
        (library.task("get the square to the top left"), "'square top left'"),
        (cumulant.Task(library.world.feature_names, ()), "'impossible'"),
        (plan, f"'{plan}'"),
        (plan.stages[1], "'agent top without agent right'"),
        (library.policy("circle left"), "circle left"),
        (library.policy(library.weights("circle left")), "weights"),
        (library.gpi()(library.world, library.weights("circle left")), "committed GPI"),
        (cumulant.random_policy(library.world), "random_policy"),
        (Policy(lambda obs: (), still), "still"),
        (Success(1.0, (0.982, 1.0), 19.5, 1, 200), "1.000 [0.982, 1.000] over 200 episodes, 19.5 steps"),
        (Success(0.0, (0.0, 0.00479), None, 3, 768), "0.000 [0.000, 0.005] over 768 episodes of 3 tasks"),
        (Success(0.5, (0.0676, 0.9324), 3.0, 1, 4, 0.25), "violated 0.250"),
        (Film("x", np.zeros((2, 4, 4, 3), np.uint8), False), "'x': not reached in 1 step"),
        (longest, "…"),
        (library.policy(longest), "…"),
    ]
    for thing, words in told:
        line = repr(thing)
        assert line.startswith(type(thing).__name__)
        assert words in line
        assert len(line) < 120
        assert "\n" not in line
