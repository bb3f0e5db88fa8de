"""How disentangled features are that need no encoder, and the states that all features are judged by."""

import jax
import numpy as np

from cumulant.features.coordinates import Features
from cumulant.features.disentanglement import dci
from cumulant.worlds.protocol import World

JUDGE_SEED = 50_000  # of the states that features are judged by; no training uses it
_JUDGED = 2_000  # states


def disentanglement_of(features: Features, world: World) -> float:
    """DCI's disentanglement of features of what the world shows."""
    states = jax.vmap(world.reset)(jax.random.split(jax.random.key(JUDGE_SEED), _JUDGED))
    f = np.asarray(jax.vmap(lambda state: features(world.observe(state)))(states))
    return dci(f, np.asarray(jax.vmap(world.features)(states))).disentanglement
