"""Stage 3: evaluate every learnt policy on a goal (GPE), and act as well as the best of them, or better (GPI).

A goal is a set of clauses, each a weight vector w over the cumulants; Q is the maximum over clauses, so goals that no
single w expresses work too. All values are scaled by 1 - γ, as the networks' are.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cumulant.features.coordinates import Features, Resolution, resolution_of, world_of
from cumulant.freeplay.networks import Network
from cumulant.goals.bins import phi
from cumulant.goals.tasks import GoalTable, met
from cumulant.goals.weights import in_units
from cumulant.transfer.commitment import Commitment, committed_gpi
from cumulant.transfer.values import all_values, doubt, in_doubt, possible
from cumulant.worlds.episodes import Policy, Staged, in_stages
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
    """What GPI goes by in a task or a plan, stage by stage. Several have a leading axis n."""

    w: Float[Array | np.ndarray, "*n s c k m"]  # weights of each stage's goal
    avoid: Float[Array | np.ndarray, "*n s f k m"]  # weights of what each stage avoids; f = 0 where nothing is
    goal: GoalTable  # [*n, s]: where each stage's goal holds, in terms of the k features
    stages: Int[Array | np.ndarray, "*n"]


def certainly(table: GoalTable, f: Float[Array, " k"], resolution: Resolution) -> Bool[Array, ""]:
    """Whether a goal holds wherever features may be that are known to a resolution alone."""
    return jax.vmap(lambda f: met(table, f))(possible(f, resolution)).all(axis=(0, 2)).any()


class Thought(NamedTuple):
    """Why GPI took an action."""

    stage: Int[Array, ""]  # that it had in mind
    clause: Int[Array, ""]
    feature: Int[Array, ""]  # of the policy that it followed
    bin: Int[Array, ""]
    values: Float[Array, "k m"]  # what every policy's best action is worth for that clause


class Gpi(eqx.Module):
    """Makes the policy for a goal from its `PlanGuide`, or from weights [c, k, m]: a policy maker for `evaluate`."""

    network: Network
    features: Features
    committed: bool = eqx.field(static=True, default=True)
    moved: Float[Array, "k k"] | None = None  # how far each feature's policies move every other, where it is known

    def __call__(self, world: World, guide: PlanGuide | Float[Array, "c k m"]) -> Policy:
        """Return the policy for a goal, whatever the world. Only committed GPI takes heed of what a plan avoids."""
        resolution = resolution_of(self.features, world)
        if not isinstance(guide, PlanGuide):
            return self._towards(guide, None, resolution)
        w, avoid, goal, stages = jax.tree.map(jnp.asarray, guide)
        if len(w) == 1:
            return self._towards(w[0], avoid[0], resolution)
        k, m = w.shape[-2:]

        def holds(obs: Array) -> Bool[Array, " s"]:
            f = self.features(obs)[:k]
            return jax.vmap(lambda table: certainly(table, f, doubt(resolution, m)))(goal)

        return in_stages(lambda stage: self._towards(w[stage], avoid[stage], resolution), holds, stages)

    def _towards(self, w: Float[Array, "c k m"], avoid: Float[Array, "f k m"] | None, resolution: Resolution) -> Policy:
        if self.committed:
            return committed_gpi(self.network, self.features, w, self.moved, avoid=avoid, resolution=resolution)
        return plain_gpi(self.network, self.features, w)

    def thought(self, world: World, guide: PlanGuide, obs: Array, memory: Staged | Commitment | tuple) -> Thought:
        """Return what was in mind when acting on an observation; `memory` is the policy's after it acted."""
        now = memory if isinstance(memory, Staged) else Staged(jnp.int32(0), memory)
        stage = jnp.minimum(now.stage, guide.stages - 1)
        w = jnp.asarray(guide.w)[stage]
        x, (k, m) = self.features(obs), w.shape[1:]
        if isinstance(now.memory, Commitment):
            clause, feature, bin = now.memory[:3]
            _, q = in_doubt(self.network, x, w[clause], doubt(resolution_of(self.features, world), m))
            return Thought(stage, clause, feature, bin, q.max(axis=2))
        values = all_values(self.network(x), w, phi(x[:k], m)).max(axis=3)
        clause, feature, bin = jnp.unravel_index(values.argmax(), values.shape)
        return Thought(stage, clause, feature, bin, values[clause])
