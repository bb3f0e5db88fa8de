"""Worlds of one's own, by command and as folders: what was trained in one is found again in the same."""

import re
from dataclasses import dataclass

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from cumulant.commands.cli import main
from cumulant.config import FreePlay
from cumulant.features.coordinates import Inputs
from cumulant.freeplay.learning import make_network
from cumulant.goals.feature import Feature
from cumulant.transfer.library import Library

BRIEF = "--env-steps 80 --num-envs 4 --width 8 --batch 8 --replay 80 --json".split()


@dataclass(frozen=True)
class Dial:
    """A dial whose description is a field, as the protocol's example has it."""

    notch: float = 1.0
    num_actions: int = 2
    max_steps: int = 10
    feature_names: tuple[Feature, ...] = (Feature("dial", high=10, words=("low", "high")),)

    def reset(self, key):
        return jax.random.uniform(key, (1,), maxval=10)

    def step(self, state, action):
        return jnp.clip(state + self.notch * (2 * action - 1), 0, 10)

    def observe(self, state):
        return state

    def features(self, state):
        return state


def tip(obs):
    return jnp.stack([-obs[1], obs[0]])


tip.feature_names = (Feature("x", of="tip", low=-1, high=1), Feature("y", of="tip", low=-1, high=1))


class Faulty(gymnasium.Env):
    observation_space, action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        raise RuntimeError("the motor is hot")


gymnasium.register("Faulty-v0", Faulty, max_episode_steps=5)


def first(obs):
    return obs


def test_load_reads_features_that_are_a_field(tmp_path):
    config = FreePlay(width=8)
    library = Library(Dial(), config, make_network(config, Inputs(1), 2, jax.random.key(0)))
    library.save(tmp_path)
    assert eqx.tree_equal(Library.load(tmp_path, world=Dial()).network, library.network)


@pytest.mark.parametrize(
    "world",
    [
        ["--world", "test_own_worlds:Dial", "--world.notch", "2"],
        ["--world", "gymnasium:Pendulum-v1", "--world.max-steps", "9", "--features", "test_own_worlds:tip"],
    ],
)
def test_solve_finds_what_pretrain_trained_alike(world, tmp_path, capsys):
    folder = str(tmp_path / "mine")
    brief = "--env-steps 80 --width 8 --batch 8 --replay 400".split()  # in as many copies as suit the world
    assert main(["pretrain", "--out", folder, *world, *brief]) == 0
    following = re.search("Next: cumulant (.*)", capsys.readouterr().out)[1]
    phrase, options = re.fullmatch('solve "(.*)" --library (.*)', following).groups()
    assert options.split() == [folder, *(word.replace("max-steps", "max_steps") for word in world)]
    assert main(["solve", phrase, "--library", *options.split(), "--episodes", "4"]) == 0
    assert main(["solve", phrase, "--library", folder, "--episodes", "4"]) == 2  # a folder brings no code
    assert "give that world" in capsys.readouterr().err


def test_solve_refuses_to_draw_before_playing(tmp_path, monkeypatch, capsys):
    config = FreePlay(width=8)
    Library(Dial(), config, make_network(config, Inputs(1), 2, jax.random.key(0))).save(tmp_path)
    monkeypatch.setattr("cumulant.worlds.episodes.rollouts", None)
    options = ["--library", str(tmp_path), "--world", "test_own_worlds:Dial", "--gif", str(tmp_path / "a.gif")]
    assert main(["solve", "dial low", *options]) == 2
    said = "cumulant: a world of kind Dial cannot be drawn: it has no `render`; give it render(state, size)"
    assert capsys.readouterr().err.startswith(said)


def test_commands_tell_of_raising_environments_plainly(capsys):
    for command in (["check", "--json"], ["pretrain", *BRIEF]):
        assert main([*command, "--world", "gymnasium:Faulty-v0", "--features", "test_own_worlds:first"]) == 2
        said = capsys.readouterr()
        assert "RuntimeError: the motor is hot" in said.out + said.err
        assert "Traceback" not in said.err
