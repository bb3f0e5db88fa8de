"""What the drawing of the idea shows: what really happens at the first step of an episode, and what becomes of it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from cumulant.goals.bins import phi
from cumulant.transfer.library import Library
from cumulant.transfer.values import own_values
from cumulant.worlds.episodes import Rollout, play
from cumulant.worlds.films import film_of
from cumulant.worlds.protocol import render
from cumulant.worlds.shapes import outline
from cumulant.worlds.spriteworld import Spriteworld

PHRASE = "square top left and circle bottom right"
SEED = 1  # of an episode in which both objects cross the arena
_FINE = 24  # places of the agent along each axis, in the map of a skill
MOMENTS = 4  # of the episode, from start to end


class Scene(NamedTuple):
    """What is drawn: how the first action of an episode comes about, and what becomes of it."""

    features: tuple[str, ...]
    actions: tuple[str, ...]
    start: UInt8[np.ndarray, "size size 3"]
    phi: Float[np.ndarray, "k m"]
    skill: tuple[int, int]  # the feature and the bin that are pursued first
    thing: Float[np.ndarray, "corners 2"]  # the outline of the object that the skill is for
    worth: Float[np.ndarray, "n n"]  # of the skill, wherever the agent may stand; as seen, the topmost row first
    psi: Float[np.ndarray, "km km"]  # every skill's predictions after the action: learnt, or the Lemma's
    w: Float[np.ndarray, "k m"]
    values: Float[np.ndarray, "k m"]  # of every skill for its own part of the goal
    of_actions: Float[np.ndarray, " a"]  # what each action is worth under the skill
    taken: int  # the action
    steps: int  # of the episode
    success: bool
    moments: dict[int, UInt8[np.ndarray, "size size 3"]]  # frames of the episode, by their step


def scene(library: Library) -> Scene:
    """Play the episode, and look into what its first step goes by: of a library like the one that ships."""
    world, task = library.world, library.task(PHRASE)
    if not isinstance(world, Spriteworld) or library.config.full_matrix:
        raise ValueError("the drawing is of a library of Spriteworld that has learnt blocks of Ψ")
    w, policy = library.weights(task), library.policy(task)
    episode = jax.jit(lambda key: play(world, policy, task, key))(jax.random.key(SEED))
    first, memory = (jax.tree.map(lambda leaf: leaf[0], part) for part in (episode.states, episode.memories))
    obs, taken = world.observe(first), int(episode.actions[0])
    thought = library.gpi().thought(world, library.guide(task), obs, memory)
    clause, i, j = int(thought.clause), int(thought.feature), int(thought.bin)
    blocks = library.network(obs)
    return Scene(
        library.feature_names,
        world.action_names,
        np.asarray(render(world, first, 320)),
        np.asarray(phi(obs, library.config.bins)),
        (i, j),
        _outline(world, obs, i // 2),
        _worth(library, obs, i, j),
        _completed(np.asarray(blocks[..., taken]), np.asarray(phi(obs, library.config.bins))),
        np.asarray(w[clause]),
        np.asarray(thought.values),
        np.asarray(own_values(blocks, w)[clause, i, j]),
        taken,
        int(episode.steps),
        bool(episode.success),
        _moments(library, episode),
    )


def _outline(world: Spriteworld, obs: Float[jax.Array, " k"], sprite: int) -> Float[np.ndarray, "corners 2"]:
    """Return the corners of a sprite where it lies; the agent has none."""
    turns = np.linspace(0, 2 * np.pi, 64)
    circle = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    corners = np.array(outline(world.objects[sprite - 1]) or circle) if sprite else np.zeros((0, 2))
    return np.asarray(obs)[2 * sprite : 2 * sprite + 2] + world.half_extent * corners


def _worth(library: Library, obs: Float[jax.Array, " k"], i: int, j: int) -> Float[np.ndarray, "n n"]:
    """Return the worth of a skill's best action from wherever the agent may stand, all else as it is."""
    along = (jnp.arange(_FINE) + 0.5) / _FINE
    x, y = jnp.meshgrid(along, along[::-1])
    agents = jnp.stack([x, y], axis=-1).reshape(-1, 2)
    everywhere = jnp.concatenate([agents, jnp.broadcast_to(obs[2:], (len(agents), len(obs) - 2))], axis=1)
    values = jax.vmap(lambda obs: library.network(obs)[i, j, j].max())(everywhere)
    return np.asarray(values).reshape(_FINE, _FINE)


def _completed(blocks: Float[np.ndarray, "k m m"], phi: Float[np.ndarray, "k m"]) -> Float[np.ndarray, "km km"]:
    """Return Ψ, with the Lemma's φ wherever a skill and a bin belong to different features."""
    k, m = phi.shape
    own = np.eye(k, dtype=bool)[:, None, :, None]
    return np.where(own, blocks[:, :, None], phi).reshape(k * m, k * m)


def _moments(library: Library, episode: Rollout) -> dict[int, UInt8[np.ndarray, "size size 3"]]:
    film = film_of(library.world, PHRASE, jax.tree.map(lambda leaf: leaf[None], episode), library.task(PHRASE))
    steps = np.linspace(0, len(film.frames) - 1, MOMENTS).round().astype(int)
    return {int(step): film.frames[step] for step in steps}
