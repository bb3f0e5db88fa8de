"""Committed GPI: one feature's goal after the other, first what disturbs others, and with care for what is reached."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import Features, Resolution, world_of
from cumulant.freeplay.networks import Network
from cumulant.goals.weights import in_units
from cumulant.transfer.values import doubt, in_doubt
from cumulant.worlds.episodes import Policy

_REACHED = 0.99  # of the best that a feature can be worth to a clause: from here on it has reached its goal
_CLOSER = 1e-3  # by which a value must rise to count as coming closer, where 1 is a goal held for ever
_PATIENCE = 6  # steps without coming closer after which a feature is given up
_SHAKES = 3  # random actions after a feature stopped getting closer: they end cycles
_MORE, _MUCH = 1.5, 0.004  # how much more, as a factor and beyond, skills must move than they are moved, to go first
_NEARLY = 0.015  # of its best action's value: what another may lack and still serve a policy as well
_COST = 0.015  # of a goal held for ever: what a reached goal must lose by an action to be spoilt by it
_ENTRY = 0.02  # of staying outside for ever: what an action must lose of it to lead inside
_TINY = 1e-6  # of a goal's largest weight: keeps a clause without wishes from dividing by zero


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


def hindrance(
    network: Network,
    x: Float[Array, " n"],
    avoid: Float[Array, "c k m"],
    resolution: Resolution,
) -> Hindrance:
    """Which actions would enter what is avoided, as far as Ψ knows, and what would lead around it.

    A clause that is avoided holds where all its coordinates lie in their forbidden bins, so that one outside suffices.
    The value of staying outside, for each coordinate's own policies, is that of weights 1 on the permitted bins; an
    action that costs some of it leads inside. Where the last coordinate outside would be lost, the way around is to
    bring another one outside first.
    """
    binding = avoid.max(axis=2) > 0  # [c, k]; clauses that never hold bind nothing
    permitted = jnp.where(binding[:, :, None], 1 - avoid, 0)
    worth, q = jax.vmap(lambda clause: in_doubt(network, x, clause, resolution))(permitted)
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


class Committed(eqx.Module):
    """Stays with the chosen policy until its feature's goal is reached or stops getting closer.

    The theorem's proof pictures GPI so: it persistently pursues the unachieved feature that is easiest to achieve.
    Plain GPI chooses anew in every state, and can go round in circles where two features are in each other's way.
    """

    network: Network
    features: Features
    w: Float[Array, "c k m"]  # in units
    order: Bool[Array, "k k"]  # which feature goes before which
    avoid: Float[Array, "f k m"] | None  # the clauses of what must not be entered
    resolution: Resolution
    patience: int = eqx.field(static=True)

    def begin(self, obs: Array) -> Commitment:
        """What to pursue first."""
        return self._choose(*self._assess(self.features(obs)), jnp.zeros(self.w.shape[1], bool))

    def act(self, now: Commitment, obs: Array, key: PRNGKeyArray) -> tuple[Commitment, Int[Array, ""]]:
        """The next action, towards what is pursued or, if that was reached or stopped getting closer, the next."""
        x = self.features(obs)
        missing, q = self._assess(x)
        value = q[now.clause, now.feature, now.bin].max()
        closer = value > now.best + _CLOSER
        best = jnp.where(closer, value, now.best)  # so that small gains add up to one that counts
        now = now._replace(best=best, stalled=jnp.where(closer, 0, now.stalled + 1))
        reached, stuck = ~missing[now.clause, now.feature], now.stalled >= self.patience
        this = jnp.arange(self.w.shape[1]) == now.feature
        given_up = jnp.where(reached, False, now.given_up | (stuck & this))
        none_left = ~(first_of(missing[now.clause], self.order) & ~given_up).any()
        anew = self._choose(missing, q, given_up & ~none_left)._replace(shake=jnp.where(stuck, _SHAKES, now.shake))
        now = jax.tree.map(lambda new, old: jnp.where(reached | stuck, new, old), anew, now)
        shaken = jax.random.randint(key, (), 0, q.shape[-1])
        action = self._careful(now, missing, q, x, shaken)
        return now._replace(shake=jnp.maximum(now.shake - 1, 0)), action

    @property
    def _conditions(self) -> Bool[Array, "c k"]:
        return self.w.max(axis=2) > 0

    def _assess(self, x: Float[Array, " n"]) -> tuple[Bool[Array, "c k"], Float[Array, "c k m a"]]:
        """Which features still miss their goals, and every policy's value for them; 1 is a goal held for ever."""
        worth, q = jax.vmap(lambda clause: in_doubt(self.network, x, clause, self.resolution))(self.w)
        highest = jnp.maximum(self.w.max(axis=2), _TINY)
        return self._conditions & (worth < _REACHED * highest), q / highest[:, :, None, None]

    def _choose(
        self, missing: Bool[Array, "c k"], q: Float[Array, "c k m a"], given_up: Bool[Array, " k"]
    ) -> Commitment:
        """The most hopeful clause, and of its features that come first the easiest."""
        conditions, value = self._conditions, q.max(axis=(2, 3))
        hope = jnp.where(conditions, jnp.where(missing, value, 1.0), 0).sum(axis=1) / jnp.maximum(
            conditions.sum(axis=1), 1
        )
        c = jnp.argmax(jnp.where(conditions.any(axis=1), hope, -1))
        i = jnp.argmax(jnp.where(first_of(missing[c], self.order) & ~given_up, value[c], -1))
        j = q[c, i].max(axis=1).argmax()
        return Commitment(c, i, j, q[c, i, j].max(), jnp.int32(0), given_up, jnp.int32(0))

    def _considerate(
        self,
        now: Commitment,
        missing: Bool[Array, "c k"],
        q: Float[Array, "c k m a"],
        barred: Bool[Array, " a"] | bool = False,
    ) -> Int[Array, ""]:
        """The action of the policy that is followed, or one as good that spoils less of what is reached."""
        own, others = q[now.clause, now.feature, now.bin], q[now.clause].max(axis=1)  # [a], [k, a]
        lost = others.max(axis=1, keepdims=True) - others
        at_stake = self._conditions[now.clause] & ~missing[now.clause]
        cost = jnp.where(at_stake[:, None] & (lost > _COST), lost, 0).sum(axis=0)
        own = jnp.where(barred, -jnp.inf, own)
        return jnp.lexsort((-own, cost, own < (1 - _NEARLY) * own.max()))[0]

    def _careful(
        self,
        now: Commitment,
        missing: Bool[Array, "c k"],
        q: Float[Array, "c k m a"],
        x: Float[Array, " n"],
        shaken: Int[Array, ""],
    ) -> Int[Array, ""]:
        """The same, or a random action after a feature stopped getting closer; but none that enters what is avoided."""
        wish = self._considerate(now, missing, q)
        if self.avoid is None or not len(self.avoid):
            return jnp.where(now.shake > 0, shaken, wish)
        barred, aside, around = hindrance(self.network, x, self.avoid, self.resolution)
        free = jnp.where(barred.all(), False, barred)
        spared = self._considerate(now, missing, q, free)
        other = jnp.where(around[wish], jnp.where(free, -1, aside[wish]).argmax(), spared)
        shaken = jnp.roll(free, -shaken).argmin() + shaken  # the next that is not barred
        return jnp.where(now.shake > 0, shaken % len(free), jnp.where(barred[wish], other, wish))


def committed_gpi(
    network: Network,
    features: Features,
    w: Float[Array, "c k m"],
    moved: Float[Array, "k k"] | None = None,
    patience: int = _PATIENCE,
    avoid: Float[Array, "f k m"] | None = None,
    resolution: Resolution = 0.0,
) -> Policy:
    """The policy that is `Committed` to one feature's goal after the other.

    `moved` says how far the policies of each feature move every other. What disturbs others is pursued before them, and
    of actions that serve it nearly alike the one is taken that spoils least of what is reached.

    `avoid` has the clauses of what must not be entered, as weights. Actions that lead there (`hindrance`) are out of
    the question while any other is left. Features are known to a `resolution`.
    """
    moved = jnp.zeros((w.shape[1], w.shape[1])) if moved is None else moved
    player = Committed(network, features, in_units(w), before(moved), avoid, doubt(resolution, w.shape[2]), patience)
    # Not as bound methods: these are hashed with all that they are bound to.
    begin, act = partial(Committed.begin, player), partial(Committed.act, player)
    return Policy(begin, act, partial(world_of, features), "committed GPI")
