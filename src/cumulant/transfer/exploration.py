"""Where to take labelled steps: the paper's random behaviour; or a tour, and once the reward was found, questions.

Ours sends the learnt skills wherever the chance of meeting a goal is highest for each step of the way. As soon as a
reward stands out, most players ask instead what tells most about the goal: samples of the posterior over boxes say
which bins of which features are in doubt, and the skills go there, all other features being where the goal is believed
to be.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from cumulant.features.coordinates import feature_count
from cumulant.goals.bins import bin_index
from cumulant.transfer.gpi import Gpi
from cumulant.transfer.reward_models import Labelled, cells_of, outstanding, redrawn
from cumulant.worlds.episodes import Reward, random_policy, rollout
from cumulant.worlds.protocol import World, done_in, never, restarted

_COPIES, _SEGMENT = 10, 25  # that behave at random side by side; and steps after which all may be reset
AT_ONCE = _COPIES * _SEGMENT  # observations that are looked at together
_PLAYERS = 4  # copies whose players know what the others have seen
_TOURISTS = 1  # of these, who tour even when the reward was found: it may be no box
_PATIENCE = 24  # steps after which a target is given up
_CELLS_A_SIDE = 3  # into which a tour cuts a feature: finer ones would take too long
_GROUPS = 1_023  # of features, at most, that a tour takes a goal to be about
_PLACES = 1_024  # for each of which it is kept whether it was seen: where there are more, some share one
_CANDIDATES = 256  # cells that a tour chooses from
_REMEMBERED = 4_096  # steps that questions are asked by
_BELIEFS = 16  # samples of the posterior
_IN_DOUBT = 0.05  # bits that a question must tell at least
_FAR = 1e-6  # the least that a policy's value counts as
_SETTING_OUT = 0.2  # what any way takes beside its length: four steps at γ = 0.95


class _Copy(NamedTuple):
    """A copy of the world, and what its player is after."""

    state: PyTree
    memory: PyTree
    target: Bool[Array, "k m"]
    steps: Int[Array, ""]  # for which it has been


class _Knowledge(NamedTuple):
    """What all copies know together."""

    steps: Labelled  # the latest
    steps_taken: Int[Array, ""]
    seen: Bool[Array, "g places"]  # by groups of features
    beliefs: Bool[Array, "s k m"]  # boxes, samples of the posterior
    found: Bool[Array, ""]  # whether a reward ever stood out


def collect_at_random(world: World, skills: Gpi, bins: int, reward: Reward, key: PRNGKeyArray, budget: int) -> Labelled:
    """`budget` labelled steps of random behaviour, no reset but the time limit's: the paper's way."""
    return at_random(world, lambda state: _label(world, skills, bins, reward, state), key, budget)


def at_random(world: World, look: Callable[[PyTree], PyTree], key: PRNGKeyArray, budget: int) -> PyTree:
    """What is to be seen of each state on `budget` steps of random behaviour: leaves have a leading axis."""
    length = min(_SEGMENT, world.max_steps)
    per_episode = world.max_steps // length

    def wander(state: PyTree, key: PRNGKeyArray) -> tuple[PyTree, PyTree]:
        states = rollout(world, random_policy(world), never, state, key, length).states
        seen, last = (jax.tree.map(lambda leaf, part=part: leaf[part], states) for part in (slice(-1), -1))
        return last, jax.vmap(look)(seen)

    def segment(states: PyTree, x: tuple[Array, PRNGKeyArray]) -> tuple[PyTree, PyTree]:
        index, key = x
        _, key_play, key_reset = jax.random.split(key, 3)
        over = jnp.full(_COPIES, index % per_episode == 0)
        states = restarted(world, states, over, key_reset)
        return jax.vmap(wander)(states, jax.random.split(key_play, _COPIES))

    segments = -(-budget // (_COPIES * length))
    key_start, key_segments = jax.random.split(key)
    first = jax.vmap(world.reset)(jax.random.split(key_start, _COPIES))
    _, seen = jax.lax.scan(segment, first, (jnp.arange(segments), jax.random.split(key_segments, segments)))
    return _in_one_row(seen, budget, axes=3)


def collect(world: World, skills: Gpi, bins: int, reward: Reward, key: PRNGKeyArray, budget: int) -> Labelled:
    """`budget` labelled steps of our way, no reset but the time limit's."""
    k = feature_count(skills.features, world)

    def aim(
        knowledge: _Knowledge, asks: Bool[Array, ""], anew: Bool[Array, ""], copy: _Copy, key: PRNGKeyArray
    ) -> _Copy:
        """The copy with its target, or with another where that was reached or takes too long."""
        obs = world.observe(copy.state)
        x = skills.features(obs)
        here, away = bin_index(x[:k], bins), _away(skills, x)
        key_sight, key_question = jax.random.split(key)
        question, bits = _question(knowledge.beliefs, away, key_question)
        sight = _sight(knowledge.seen, here, away, key_sight)
        target = jnp.where(asks & knowledge.found & (bits > _IN_DOUBT), question, sight)
        fresh = _Copy(copy.state, skills(world, _weights(target)[None]).begin(obs), target, jnp.int32(0))
        arrived = jnp.take_along_axis(copy.target, here[:, None], axis=1).all()
        change = anew | arrived | (copy.steps >= _PATIENCE)
        return jax.tree.map(lambda new, old: jnp.where(change, new, old), fresh, copy)

    def step(copy: _Copy, key: PRNGKeyArray) -> tuple[_Copy, Labelled]:
        policy = skills(world, _weights(copy.target)[None])
        memory, action = policy.act(copy.memory, world.observe(copy.state), key)
        following = _Copy(world.step(copy.state, action), memory, copy.target, copy.steps + 1)
        return following, _label(world, skills, bins, reward, copy.state)

    def all_step(carry: tuple[_Copy, _Knowledge], x: tuple[Array, PRNGKeyArray]) -> tuple[tuple, Labelled]:
        (copies, knowledge), (time, key) = carry, x
        key_reset, key_aim, key_act, key_learn = jax.random.split(key, 4)
        over = jnp.full(_PLAYERS, time % world.max_steps == 0)
        over |= jax.vmap(lambda state: done_in(world, state))(copies.state)
        states = restarted(world, copies.state, over, key_reset)
        copies = jax.vmap(lambda *x: aim(knowledge, *x))(
            jnp.arange(_PLAYERS) >= _TOURISTS, over, copies._replace(state=states), jax.random.split(key_aim, _PLAYERS)
        )
        copies, labelled = jax.vmap(step)(copies, jax.random.split(key_act, _PLAYERS))
        return (copies, _learn(knowledge, labelled, bins, time % k, key_learn)), labelled

    times = -(-budget // _PLAYERS)
    key_start, key_steps = jax.random.split(key)
    first = (_start(world, skills, k, bins, key_start), _nothing(k, bins, times * _PLAYERS))
    _, labelled = jax.lax.scan(all_step, first, (jnp.arange(times), jax.random.split(key_steps, times)))
    return _in_one_row(labelled, budget, axes=2)


def _start(world: World, skills: Gpi, k: int, bins: int, key: PRNGKeyArray) -> _Copy:
    """Copies that are after nothing yet."""
    states = jax.vmap(world.reset)(jax.random.split(key, _PLAYERS))
    anywhere = jnp.ones((_PLAYERS, k, bins), bool)
    nothing = skills(world, jnp.zeros((1, k, bins)))
    memories = jax.vmap(lambda state: nothing.begin(world.observe(state)))(states)
    return _Copy(states, memories, anywhere, jnp.zeros(_PLAYERS, jnp.int32))


def _nothing(k: int, bins: int, steps: int) -> _Knowledge:
    """Before any of so many steps."""
    remembered = min(_REMEMBERED, steps)
    places = min(min(bins, _CELLS_A_SIDE) ** k, _PLACES)
    return _Knowledge(
        steps=Labelled(jnp.zeros((remembered, k), jnp.int32), jnp.zeros(remembered), jnp.zeros(remembered, bool)),
        steps_taken=jnp.int32(0),
        seen=jnp.zeros((len(_groups(k)), places), bool),
        beliefs=jnp.ones((_BELIEFS, k, bins), bool),
        found=jnp.zeros((), bool),
    )


def _label(world: World, skills: Gpi, bins: int, reward: Reward, state: PyTree) -> Labelled:
    # Rewards may be whole numbers, or true and false.
    amount = jnp.asarray(reward(state), float)
    f = skills.features(world.observe(state))[: feature_count(skills.features, world)]
    return Labelled(bin_index(f, bins), amount, jnp.ones((), bool))


def _in_one_row(seen: PyTree, budget: int, axes: int) -> PyTree:
    """The steps of all times and copies, as many as were asked for."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[axes:])[:budget], seen)


def _weights(target: Bool[Array, "k m"]) -> Float[Array, "k m"]:
    return jnp.where(target.all(axis=1, keepdims=True), 0.0, target)


def _away(skills: Gpi, x: Float[Array, " n"]) -> Float[Array, "k m"]:
    """How far every bin of every feature is for the feature's own policies, in steps but for a factor."""
    psi = skills.network(x)
    blocks = jnp.einsum("ijiha->ijha", psi) if psi.ndim == 5 else psi
    return -jnp.log(jnp.clip(blocks.max(axis=(1, 3)), _FAR, 1.0))


def _groups(k: int) -> Bool[np.ndarray, "g k"]:
    """Sets of features that a goal may be about, small ones first."""
    sets = itertools.chain.from_iterable(itertools.combinations(range(k), size) for size in range(1, k + 1))
    return np.array([np.isin(np.arange(k), chosen) for chosen in itertools.islice(sets, _GROUPS)])


def _places(cells: Int[Array, "n k"], side: int, places: int) -> Int[Array, "n g"]:
    """Where it is kept, for each group of features, whether its part of a cell was ever seen."""
    k = cells.shape[1]
    powers = jnp.uint32(side) ** jnp.arange(k, dtype=jnp.uint32)
    index = (cells.astype(jnp.uint32)[:, None, :] * powers * _groups(k)).sum(axis=2)
    return (index % places).astype(jnp.int32)


def _sight(
    seen: Bool[Array, "g places"], here: Int[Array, " k"], away: Float[Array, "k m"], key: PRNGKeyArray
) -> Bool[Array, "k m"]:
    """What to see next: the change of some features that has the highest chance, for each step, of meeting the goal.

    A goal that was not met yet may be about any group of features, and then lies in a part of a cell that was never
    seen. The more features it is about, the less likely is any one part.
    """
    k, m = away.shape
    side = min(m, _CELLS_A_SIDE)
    coarse = jnp.arange(m) * side // m  # the part of a feature that each bin belongs to
    key_change, key_cell, key_share = jax.random.split(key, 3)
    share = jax.random.uniform(key_share, (_CANDIDATES, 1)) ** 2  # of the features that are to change
    change = jax.random.bernoulli(key_change, jnp.maximum(share, 1 / k), (_CANDIDATES, k))
    cells = jnp.where(change, jax.random.randint(key_cell, (_CANDIDATES, k), 0, side), coarse[here])
    change = cells != coarse[here]
    distance = jnp.where(coarse == jnp.arange(side)[:, None], away[:, None, :], jnp.inf).min(axis=2)  # [k, side]
    steps = jnp.where(change, jnp.take_along_axis(distance.T, cells, axis=0), 0).sum(axis=1)
    groups = _groups(k)
    known = seen[jnp.arange(len(groups)), _places(cells, side, seen.shape[1])]  # [n, g]
    chance = (~known * float(side) ** -groups.sum(axis=1)).sum(axis=1)
    chosen = jnp.argmax(chance / (steps + _SETTING_OUT))
    return ~change[chosen][:, None] | (coarse == cells[chosen][:, None])


def _question(
    beliefs: Bool[Array, "s k m"], away: Float[Array, "k m"], key: PRNGKeyArray
) -> tuple[Bool[Array, "k m"], Float[Array, ""]]:
    """The goal as one sample believes it, but for one feature, which goes to a bin in doubt; and the bits it tells."""
    k, m = away.shape
    likely = beliefs.mean(axis=0)
    bits = (jax.scipy.special.entr(likely) + jax.scipy.special.entr(1 - likely)) / jnp.log(2)
    believed = beliefs[jax.random.randint(key, (), 0, len(beliefs))]
    others = jnp.where(believed, away, jnp.inf).min(axis=1)  # [k]
    steps = others.sum() - others[:, None] + away
    per_step = bits / (steps + _SETTING_OUT)
    i, j = jnp.unravel_index(per_step.argmax(), (k, m))
    return believed.at[i].set(jnp.arange(m) == j), bits[i, j]


def _learn(knowledge: _Knowledge, new: Labelled, bins: int, feature: Int[Array, ""], key: PRNGKeyArray) -> _Knowledge:
    """What new steps add. Of the beliefs, what they say of one feature is drawn anew."""
    size = len(knowledge.steps.reward)
    where = (knowledge.steps_taken + jnp.arange(len(new.reward))) % size
    steps = jax.tree.map(lambda all_steps, latest: all_steps.at[where].set(latest), knowledge.steps, new)
    side = min(bins, _CELLS_A_SIDE)
    places = _places(new.bins * side // bins, side, knowledge.seen.shape[1])
    good = outstanding(steps)
    key_start, key_draw = jax.random.split(key)
    starts = cells_of(steps, good, bins, _BELIEFS, key_start)
    found = knowledge.found | good.any()
    beliefs = jnp.where(found & ~knowledge.found, starts, knowledge.beliefs)
    return _Knowledge(
        steps=steps,
        steps_taken=knowledge.steps_taken + len(new.reward),
        seen=knowledge.seen.at[jnp.arange(places.shape[1]), places].set(True),
        beliefs=jnp.where(found, redrawn(beliefs, feature, steps, key_draw), beliefs),
        found=found,
    )
