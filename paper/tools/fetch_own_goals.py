"""FetchPush by its own standard: its random goals, and its own success, the puck within 5 cm. Needs `robotics`.

python paper/tools/fetch_own_goals.py LIBRARY [--episodes 100] [--seed 0]
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray, PyTree

from cumulant.goals.feature import described
from cumulant.goals.weights import weights
from cumulant.transfer.evaluation import summarise
from cumulant.transfer.library import Library
from cumulant.worlds.episodes import over_episodes, random_policy, rollout
from cumulant.worlds.fetch import fetch_push
from cumulant.worlds.host import HostWorld

NEAR = 0.05  # m: what the environment calls success
STEPS = 50  # of an episode, as the environment has it
_SIDE = 0.035  # m: half the side of a square that lies within that circle
_GRID = 90  # parts of a range, to tell the square in


def table_of(world: HostWorld, goal: Float[Array, "3"]) -> Bool[Array, "1 k grid"]:
    """The puck's x and y within a square about the goal, all else anywhere."""
    rows = []
    for feature in described(world.feature_names):
        at = feature.low + (jnp.arange(_GRID) + 0.5) / _GRID * (feature.high - feature.low)
        near = jnp.abs(at - goal["xy".index(feature.name)]) < _SIDE if feature.of == "puck" else jnp.ones(_GRID, bool)
        rows.append(near)
    return jnp.stack(rows)[None]


def play(library: Library, keys: Key[Array, " n"], at_random: bool) -> tuple[np.ndarray, np.ndarray]:
    """Success and steps of episodes with the environment's own goals: [1, n] each."""
    world, host = library.seen, library.world
    assert isinstance(host, HostWorld)

    def reached(state: PyTree) -> Bool[Array, ""]:
        shown = host.as_shown(host.observe(state))
        return jnp.linalg.norm(shown["achieved_goal"] - shown["desired_goal"]) < NEAR

    def episode(_: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        key_start, key_act = jax.random.split(key)
        start = world.reset(key_start)
        goal = host.as_shown(host.observe(start))["desired_goal"]
        w = weights(table_of(host, goal), library.config.bins)
        policy = random_policy(world) if at_random else library.gpi()(world, w)
        played = rollout(world, policy, reached, start, key_act)
        return played.success, played.steps

    played = jax.jit(lambda keys: over_episodes(world, episode, (jnp.zeros(1),), keys))(keys[None])
    success, steps = jax.device_get(played)
    return success, steps


def main() -> None:
    """Print success, and random play's beside it."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("library")
    reader.add_argument("--episodes", type=int, default=100)
    reader.add_argument("--seed", type=int, default=0)
    given = reader.parse_args()
    trained = Library.load(given.library)
    short = fetch_push(max_steps=STEPS)
    library = Library(short, trained.config, trained.network, trained.features, trained.moved, trained.tremble)
    keys = jax.random.split(jax.random.key(given.seed), given.episodes)
    print(f"the environment's own goals, within {NEAR} m and {STEPS} steps, {given.episodes} episodes")
    for name in ("library", "random play"):
        found = summarise(*play(library, keys, name == "random play"), STEPS)
        interval = ", ".join(f"{bound:.3f}" for bound in found.ci95)
        print(f"{name}: {found.success:.3f} [{interval}], {found.mean_steps or 0:.1f} steps where it was reached")


if __name__ == "__main__":
    main()
