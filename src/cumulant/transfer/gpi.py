"""Stage 3: evaluate every learnt policy on a goal (GPE), and act as well as the best of them, or better (GPI).

A goal is a set of clauses, each a weight vector w over the cumulants; Q is the maximum over clauses, so goals that no
single w expresses work too. All values are scaled by 1 - γ, as the networks' are.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import Features, resolution_of
from cumulant.freeplay.networks import Network
from cumulant.goals.bins import phi
from cumulant.goals.tasks import met
from cumulant.goals.weights import in_units
from cumulant.worlds.episodes import Policy, in_stages
from cumulant.worlds.protocol import World

_REACHED = 0.99  # of the best that a feature can be worth to a clause: from here on it has reached its goal
_CLOSER = 1e-3  # by which a value must rise to count as coming closer, where 1 is a goal held for ever
_PATIENCE = 6  # steps without coming closer after which a feature is given up
_SHAKES = 3  # random actions after a feature stopped getting closer: they end cycles
_SURE_SHARE = 1 / 2  # of a bin, at least, in which features in doubt count as lying in it
_MORE, _MUCH = 1.5, 0.004  # how much more, as a factor and beyond, skills must move than they are moved, to go first
_NEARLY = 0.015  # of its best action's value: what another may lack and still serve a policy as well
_COST = 0.015  # of a goal held for ever: what a reached goal must lose by an action to be spoilt by it
_ENTRY = 0.02  # of staying outside for ever: what an action must lose of it to lead inside
_TINY = 1e-6  # of a goal's largest weight: keeps a clause without wishes from dividing by zero


def gpe(
    psi: Float[Array, "i j *cumulants a"], w: Float[Array, "k m"], phi: Float[Array, "k m"]
) -> Float[Array, "i j a"]:
    """Every policy's value for the cumulant φ_w: all of Ψ [i, j, k, m, a], or its blocks [k, m, m, a] → [i, j, a].

    Blocks are completed by the Lemma: under a policy of feature i, the other features stay as they are.
    """
    if psi.ndim == 5:
        return jnp.einsum("ijlha,lh->ija", psi, w)
    own = jnp.einsum("ijha,ih->ija", psi, w)
    present = (w * phi).sum(axis=1)
    return own + (present.sum() - present)[:, None, None]


def all_values(
    psi: Float[Array, "i j *cumulants a"], w: Float[Array, "c k m"], phi: Float[Array, "k m"]
) -> Float[Array, "c i j a"]:
    """Every policy's value for each clause: what plain GPI goes by."""
    return jax.vmap(lambda clause: gpe(psi, clause, phi))(w)


def own_values(psi: Float[Array, "k m *cumulants a"], w: Float[Array, "c k m"]) -> Float[Array, "c k m a"]:
    """Every policy's value for its own feature's part of each clause: what committed GPI goes by."""
    blocks = jnp.einsum("ijiha->ijha", psi) if psi.ndim == 5 else psi
    return jnp.einsum("ijha,cih->cija", blocks, w)


def plain_gpi(network: Network, features: Features, w: Float[Array, "c k m"]) -> Policy:
    """The paper's: in every state the action that is best under the best of all policies."""
    w = in_units(w)

    def act(memory: tuple, obs: Array, key: PRNGKeyArray) -> tuple[tuple, Int[Array, ""]]:
        f = features(obs)
        q = all_values(network(f), w, phi(f, w.shape[-1]))
        return memory, q.max(axis=(0, 1, 2)).argmax()

    return Policy(lambda obs: (), act)


def doubt(features: Features, bins: int) -> float:
    """How far off features may be: their resolution, or less where bins are so narrow that none would be certain."""
    return min(resolution_of(features), (1 - _SURE_SHARE) / (2 * bins))


def at_worst(f: Float[Array, " k"], w: Float[Array, "k m"], resolution: float) -> Float[Array, " k"]:
    """Features that are known to a resolution alone, each where it would be worth least: [k] → [k].

    So a goal counts as reached only where there is no doubt. Without it, an agent would stand still a hair outside of
    what it believes to have reached.
    """
    if not resolution:
        return f
    possible = jnp.clip(jnp.stack([f, f - resolution, f + resolution]), 0, 1)
    worth = (w * phi(possible, w.shape[-1])).sum(axis=2)  # [3, k]
    return jnp.take_along_axis(possible, worth.argmin(axis=0)[None], axis=0)[0]


def in_doubt(
    network: Network, f: Float[Array, " k"], clause: Float[Array, "k m"], resolution: float
) -> tuple[Float[Array, " k"], Float[Array, "k m a"]]:
    """What each feature is worth to a clause, and every policy's value for its part of it, both at worst."""
    f = at_worst(f, clause, resolution)
    return (clause * phi(f, clause.shape[1])).sum(axis=1), own_values(network(f), clause[None])[0]


def before(moved: Float[Array, "k k"]) -> Bool[Array, "k k"]:
    """Which feature goes before which: [i, l] if the policies of i move l more than those of l move i."""
    return moved > _MORE * moved.T + _MUCH


def first_of(wanted: Bool[Array, " k"], before: Bool[Array, "k k"]) -> Bool[Array, " k"]:
    """Of the features that are wanted, those that no other one goes before; all, if they go in a circle."""
    first = wanted & ~(wanted[:, None] & before).any(axis=0)
    return jnp.where(first.any(), first, wanted)


class Hindrance(NamedTuple):
    """What the forbidden region means for the next action."""

    barred: Bool[Array, " a"]  # actions that would lead into it
    aside: Float[Array, "a a"]  # for each action that is barred, what every action is worth for a way around
    around: Bool[Array, " a"]  # whether there is one


def hindrance(network: Network, f: Float[Array, " k"], avoid: Float[Array, "c k m"], resolution: float) -> Hindrance:
    """Which actions would enter what is avoided, as far as Ψ knows, and what would lead around it.

    A clause that is avoided holds where all its coordinates lie in their forbidden bins, so that one outside suffices.
    The value of staying outside, for each coordinate's own policies, is that of weights 1 on the permitted bins; an
    action that costs some of it leads inside. Where the last coordinate outside would be lost, the way around is to
    bring another one outside first.
    """
    binding = avoid.max(axis=2) > 0  # [c, k]; clauses that never hold bind nothing
    permitted = jnp.where(binding[:, :, None], 1 - avoid, 0)
    worth, q = jax.vmap(lambda clause: in_doubt(network, f, clause, resolution))(permitted)
    value = q.max(axis=2)  # [c, k, a]; 1 for staying outside for ever
    outside = binding & (worth >= _REACHED)
    kept = outside[:, :, None] & (value.max(axis=2, keepdims=True) - value <= _ENTRY)
    barred = outside.any(axis=1)[:, None] & ~kept.any(axis=1)  # [c, a]
    others = binding & ~outside
    easiest = jnp.where(others, value.max(axis=2), -1).argmax(axis=1)  # [c]
    aside = jnp.take_along_axis(value, easiest[:, None, None], axis=1)[:, 0]  # [c, a]
    clause = barred.argmax(axis=0)  # the first that bars each action
    return Hindrance(barred.any(axis=0), aside[clause], barred.any(axis=0) & others.any(axis=1)[clause])


class Commitment(NamedTuple):
    """What committed GPI pursues: a clause, one of its features, and the policy for it."""

    clause: Int[Array, ""]
    feature: Int[Array, ""]
    bin: Int[Array, ""]
    best: Float[Array, ""]  # the highest value seen on the way, as a share of the goal held for ever
    stalled: Int[Array, ""]  # steps since the value last rose
    given_up: Bool[Array, " k"]  # features that stopped getting closer
    shake: Int[Array, ""]  # random actions still to take, after one stopped getting closer


def committed_gpi(
    network: Network,
    features: Features,
    w: Float[Array, "c k m"],
    moved: Float[Array, "k k"] | None = None,
    patience: int = _PATIENCE,
    avoid: Float[Array, "f k m"] | None = None,
) -> Policy:
    """Stay with the chosen policy until its feature's goal is reached or stops getting closer.

    The theorem's proof pictures GPI so: it persistently pursues the unachieved feature that is easiest to achieve.
    Plain GPI chooses anew in every state, and can go round in circles where two features are in each other's way.

    `moved` says how far the policies of each feature move every other. What disturbs others is pursued before them, and
    of actions that serve it nearly alike the one is taken that spoils least of what is reached.

    `avoid` has the clauses of what must not be entered, as weights. Actions that lead there (`hindrance`) are out of
    the question while any other is left.
    """
    w = in_units(w)
    conditions = w.max(axis=2) > 0  # [c, k]
    highest = jnp.maximum(w.max(axis=2), _TINY)
    resolution = doubt(features, w.shape[2])
    moved = jnp.zeros((w.shape[1], w.shape[1])) if moved is None else moved
    order = before(moved)

    def assess(obs: Array) -> tuple[Array, Array]:
        """Which features still miss their goals [c, k], and every policy's value for them [c, k, m, a]."""
        f = features(obs)
        worth, q = jax.vmap(lambda clause: in_doubt(network, f, clause, resolution))(w)
        return conditions & (worth < _REACHED * highest), q / highest[:, :, None, None]

    def choose(missing: Array, q: Array, given_up: Bool[Array, " k"]) -> Commitment:
        value = q.max(axis=(2, 3))  # [c, k]; 1 for a goal held for ever
        hope = jnp.where(conditions, jnp.where(missing, value, 1.0), 0).sum(axis=1) / jnp.maximum(
            conditions.sum(axis=1), 1
        )
        c = jnp.argmax(jnp.where(conditions.any(axis=1), hope, -1))
        i = jnp.argmax(jnp.where(first_of(missing[c], order) & ~given_up, value[c], -1))
        j = q[c, i].max(axis=1).argmax()
        return Commitment(c, i, j, q[c, i, j].max(), jnp.int32(0), given_up, jnp.int32(0))

    def considerate(now: Commitment, missing: Array, q: Array, barred: Array | bool = False) -> Int[Array, ""]:
        """The action of the policy that is followed, or one as good that spoils less of what is reached."""
        own, others = q[now.clause, now.feature, now.bin], q[now.clause].max(axis=1)  # [a], [k, a]
        lost = others.max(axis=1, keepdims=True) - others
        at_stake = conditions[now.clause] & ~missing[now.clause]
        cost = jnp.where(at_stake[:, None] & (lost > _COST), lost, 0).sum(axis=0)
        own = jnp.where(barred, -jnp.inf, own)
        return jnp.lexsort((-own, cost, own < (1 - _NEARLY) * own.max()))[0]

    def careful(now: Commitment, missing: Array, q: Array, obs: Array, shaken: Array) -> Int[Array, ""]:
        """The same, or a random action after a feature stopped getting closer; but none that enters what is avoided."""
        wish = considerate(now, missing, q)
        if avoid is None or not len(avoid):
            return jnp.where(now.shake > 0, shaken, wish)
        barred, aside, around = hindrance(network, features(obs), avoid, resolution)
        free = jnp.where(barred.all(), False, barred)
        other = jnp.where(around[wish], jnp.where(free, -1, aside[wish]).argmax(), considerate(now, missing, q, free))
        shaken = jnp.roll(free, -shaken).argmin() + shaken  # the next that is not barred
        return jnp.where(now.shake > 0, shaken % len(free), jnp.where(barred[wish], other, wish))

    def begin(obs: Array) -> Commitment:
        return choose(*assess(obs), jnp.zeros(w.shape[1], bool))

    def act(now: Commitment, obs: Array, key: PRNGKeyArray) -> tuple[Commitment, Int[Array, ""]]:
        missing, q = assess(obs)
        value = q[now.clause, now.feature, now.bin].max()
        closer = value > now.best + _CLOSER
        best = jnp.where(closer, value, now.best)  # so that small gains add up to one that counts
        now = now._replace(best=best, stalled=jnp.where(closer, 0, now.stalled + 1))
        reached, stuck = ~missing[now.clause, now.feature], now.stalled >= patience
        given_up = jnp.where(reached, False, now.given_up | (stuck & (jnp.arange(w.shape[1]) == now.feature)))
        none_left = ~(first_of(missing[now.clause], order) & ~given_up).any()
        anew = choose(missing, q, given_up & ~none_left)._replace(shake=jnp.where(stuck, _SHAKES, now.shake))
        now = jax.tree.map(lambda new, old: jnp.where(reached | stuck, new, old), anew, now)
        shaken = jax.random.randint(key, (), 0, q.shape[-1])
        action = careful(now, missing, q, obs, shaken)
        return now._replace(shake=jnp.maximum(now.shake - 1, 0)), action

    return Policy(begin, act)


class PlanGuide(NamedTuple):
    """What GPI goes by in a plan, stage by stage. Many plans have a leading axis n."""

    w: Float[Array, "*n s c k m"]  # weights of each stage's goal
    avoid: Float[Array, "*n s f k m"]  # weights of what each stage avoids
    goal: Bool[Array, "*n s c k b"]  # where each stage's goal holds, in bins so fine that regions are made of them
    stages: Int[Array, "*n"]


def certainly(table: Bool[Array, "c k b"], f: Float[Array, " k"], resolution: float) -> Bool[Array, ""]:
    """Whether a goal holds wherever features may be that are known to a resolution alone."""
    possible = jnp.clip(jnp.stack([f, f - resolution, f + resolution] if resolution else [f]), 0, 1)
    return jax.vmap(lambda f: met(table, f))(possible).all(axis=(0, 2)).any()


class Thought(NamedTuple):
    """Why GPI took an action."""

    clause: Int[Array, ""]
    feature: Int[Array, ""]  # of the policy that it followed
    bin: Int[Array, ""]
    values: Float[Array, "k m"]  # what every policy's best action is worth for that clause


class Gpi(eqx.Module):
    """Makes the policy for a goal, given as weights [c, k, m], or for a plan: a policy maker for `evaluate`."""

    network: Network
    features: Features
    committed: bool = eqx.field(static=True, default=True)
    moved: Float[Array, "k k"] | None = None  # how far each feature's policies move every other, where it is known

    def __call__(
        self, world: World, w: Float[Array, "c k m"] | PlanGuide, avoid: Float[Array, "f k m"] | None = None
    ) -> Policy:
        """The policy for weights w, perhaps with weights of what to avoid, or for a plan, whatever the world."""
        return self._planned(w) if isinstance(w, PlanGuide) else self._towards(w, avoid)

    def _towards(self, w: Float[Array, "c k m"], avoid: Float[Array, "f k m"] | None = None) -> Policy:
        if self.committed:
            return committed_gpi(self.network, self.features, w, self.moved, avoid=avoid)
        return plain_gpi(self.network, self.features, w)

    def _planned(self, guide: PlanGuide) -> Policy:
        resolution = doubt(self.features, guide.w.shape[-1])

        def holds(obs: Array) -> Bool[Array, " s"]:
            return jax.vmap(lambda table: certainly(table, self.features(obs), resolution))(guide.goal)

        return in_stages(lambda stage: self._towards(guide.w[stage], guide.avoid[stage]), holds, guide.stages)

    def thought(self, w: Float[Array, "c k m"], obs: Array, memory: Commitment | tuple) -> Thought:
        """What was in mind when acting on an observation; `memory` is the policy's after it acted."""
        f = self.features(obs)
        if isinstance(memory, Commitment):
            _, q = in_doubt(self.network, f, w[memory.clause], doubt(self.features, w.shape[2]))
            return Thought(memory.clause, memory.feature, memory.bin, q.max(axis=2))
        values = all_values(self.network(f), w, phi(f, w.shape[-1])).max(axis=3)
        clause, feature, bin = jnp.unravel_index(values.argmax(), values.shape)
        return Thought(clause, feature, bin, values[clause])
