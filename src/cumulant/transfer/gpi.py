"""Stage 3: evaluate every learnt policy on a goal (GPE), and act as well as the best of them, or better (GPI).

A goal is a set of clauses, each a weight vector w over the cumulants; Q is the maximum over clauses, so goals that no
single w expresses work too. All values are scaled by 1 - γ, as the networks' are.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import Features, Resolution, resolution_of, world_of
from cumulant.freeplay.networks import Network
from cumulant.goals.bins import phi
from cumulant.goals.tasks import met
from cumulant.goals.weights import in_units
from cumulant.transfer.commitment import Commitment, committed_gpi
from cumulant.transfer.values import all_values, doubt, in_doubt, possible
from cumulant.worlds.episodes import Policy, in_stages
from cumulant.worlds.protocol import World


def plain_gpi(network: Network, features: Features, w: Float[Array, "c k m"]) -> Policy:
    """The paper's: in every state the action that is best under the best of all policies."""
    w = in_units(w)

    def act(memory: tuple, obs: Array, key: PRNGKeyArray) -> tuple[tuple, Int[Array, ""]]:
        x = features(obs)
        q = all_values(network(x), w, phi(x[: w.shape[1]], w.shape[2]))
        return memory, q.max(axis=(0, 1, 2)).argmax()

    return Policy(lambda obs: (), act, partial(world_of, features), "plain GPI")


class PlanGuide(NamedTuple):
    """What GPI goes by in a plan, stage by stage. Many plans have a leading axis n."""

    w: Float[Array, "*n s c k m"]  # weights of each stage's goal
    avoid: Float[Array, "*n s f k m"]  # weights of what each stage avoids
    goal: Bool[Array, "*n s c k b"]  # where each stage's goal holds, in bins so fine that regions are made of them
    stages: Int[Array, "*n"]


def certainly(table: Bool[Array, "c k b"], f: Float[Array, " k"], resolution: Resolution) -> Bool[Array, ""]:
    """Whether a goal holds wherever features may be that are known to a resolution alone."""
    return jax.vmap(lambda f: met(table, f))(possible(f, resolution)).all(axis=(0, 2)).any()


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
        resolution = resolution_of(self.features, world)
        return self._planned(w, resolution) if isinstance(w, PlanGuide) else self._towards(w, avoid, resolution)

    def _towards(
        self,
        w: Float[Array, "c k m"],
        avoid: Float[Array, "f k m"] | None,
        resolution: Resolution,
    ) -> Policy:
        if self.committed:
            return committed_gpi(self.network, self.features, w, self.moved, avoid=avoid, resolution=resolution)
        return plain_gpi(self.network, self.features, w)

    def _planned(self, guide: PlanGuide, resolution: Resolution) -> Policy:
        k, m = guide.w.shape[-2:]

        def holds(obs: Array) -> Bool[Array, " s"]:
            f = self.features(obs)[:k]
            return jax.vmap(lambda table: certainly(table, f, doubt(resolution, m)))(guide.goal)

        def policy_at(stage: Int[Array, ""]) -> Policy:
            return self._towards(guide.w[stage], guide.avoid[stage], resolution)

        return in_stages(policy_at, holds, guide.stages)

    def thought(self, world: World, w: Float[Array, "c k m"], obs: Array, memory: Commitment | tuple) -> Thought:
        """What was in mind when acting on an observation; `memory` is the policy's after it acted."""
        x, (k, m) = self.features(obs), w.shape[1:]
        if isinstance(memory, Commitment):
            resolution = doubt(resolution_of(self.features, world), m)
            _, q = in_doubt(self.network, x, w[memory.clause], resolution)
            return Thought(memory.clause, memory.feature, memory.bin, q.max(axis=2))
        values = all_values(self.network(x), w, phi(x[:k], m)).max(axis=3)
        clause, feature, bin = jnp.unravel_index(values.argmax(), values.shape)
        return Thought(clause, feature, bin, values[clause])
