"""Ψ-networks. All map a state to the blocks of Ψ that are learnt, scaled by 1 - γ so that every entry lies in [0, 1].

With the off-diagonal trick a policy (i, j) has m entries for each action, those of its own feature i; with the full
matrix it has k·m. Axes everywhere: (i, j) policy, then cumulants, then action.
"""

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cumulant.config import FreePlay
from cumulant.features.coordinates import Inputs


def centred(x: Float[Array, " n"], inputs: Inputs) -> Float[Array, " n"]:
    """Features about 0, the other inputs as they are."""
    return jnp.concatenate([2 * x[: inputs.features] - 1, x[inputs.features :]]) if inputs.others else 2 * x - 1


def relations(x: Float[Array, " n"], inputs: Inputs) -> Float[Array, " r"]:
    """The same, and the differences of features: [k] → [k + k(k-1)/2] where all of them mean something.

    It knows nothing of the world, only that what lies near what matters in most.
    """
    first, second = jnp.triu_indices(inputs.features, 1)
    if inputs.pairs is not None:
        first, second = jnp.array(inputs.pairs, int).reshape(-1, 2).T
    return jnp.concatenate([centred(x, inputs), x[first] - x[second]])


def _shown(x: Float[Array, " n"], inputs: Inputs, relational: bool) -> Float[Array, " r"]:
    return (relations if relational else centred)(x, inputs)


class Head(eqx.Module):
    """One linear layer: [width] → [*shape, actions]."""

    weight: Float[Array, "*shape actions width"]
    bias: Float[Array, "*shape actions"]

    def __call__(self, x: Float[Array, " width"]) -> Float[Array, "..."]:
        """A value for each."""
        return self.weight @ x + self.bias


class Dueling(eqx.Module):
    """A head with values and advantages: [width] → [*shape, actions]."""

    value: eqx.nn.Linear
    advantage: eqx.nn.Linear
    shape: tuple[int, ...] = eqx.field(static=True)
    actions: int = eqx.field(static=True)

    def __init__(self, width: int, shape: tuple[int, ...], actions: int, key: PRNGKeyArray):
        """`shape` holds the policies and cumulants that the head gives values for."""
        key_value, key_advantage = jax.random.split(key)
        outputs = math.prod(shape)
        self.value = eqx.nn.Linear(width, outputs, key=key_value)
        self.advantage = eqx.nn.Linear(width, outputs * actions, key=key_advantage)
        self.shape, self.actions = shape, actions

    def __call__(self, x: Float[Array, " width"]) -> Float[Array, "..."]:
        """Values plus advantages, whose mean over actions is taken off."""
        advantage = self.advantage(x).reshape(*self.shape, self.actions)
        return self.value(x).reshape(*self.shape, 1) + advantage - advantage.mean(axis=-1, keepdims=True)

    def merged(self) -> Head:
        """The same as one layer, for values, advantages and their mean are linear."""

        def merge(value: Array | None, advantage: Array | None) -> Array:
            assert value is not None  # only a layer without a bias has none
            assert advantage is not None
            advantage = advantage.reshape(*self.shape, self.actions, *advantage.shape[1:])
            mean = advantage.mean(axis=len(self.shape), keepdims=True)
            return value.reshape(mean.shape) + advantage - mean

        return Head(merge(self.value.weight, self.advantage.weight), merge(self.value.bias, self.advantage.bias))


class Trunk(eqx.Module):
    """Layers and a head. With every policy in the head, each transition teaches them all, and one pass serves GPI."""

    layers: list[eqx.nn.Linear]
    head: Dueling | Head
    inputs: Inputs = eqx.field(static=True)
    relational: bool = eqx.field(static=True)

    def __init__(
        self,
        inputs: Inputs,
        shape: tuple[int, ...],
        actions: int,
        width: int,
        depth: int,
        relational: bool,
        key: PRNGKeyArray,
    ):
        """`shape` is the head's: the policies, then the cumulants of each."""
        keys = jax.random.split(key, depth + 1)
        self.inputs, self.relational = inputs, relational
        shown = jax.eval_shape(lambda x: _shown(x, inputs, relational), jnp.zeros(inputs.features + inputs.others))
        sizes = [len(shown), *[width] * depth]
        self.layers = [eqx.nn.Linear(a, b, key=key) for a, b, key in zip(sizes[:-1], sizes[1:], keys[1:], strict=True)]
        self.head = Dueling(width, shape, actions, keys[0])

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, "..."]:
        """[n] → [*shape, actions]."""
        x = _shown(x, self.inputs, self.relational).astype(self.layers[0].weight.dtype)
        for layer in self.layers:
            x = jax.nn.leaky_relu(layer(x), 0.1)
        return self.head(x)


class TrunkPerFeature(eqx.Module):
    """A small trunk for each feature's policies: what one feature has to learn is never in another's way."""

    trunks: Trunk  # arrays with a leading axis k

    def __init__(
        self,
        inputs: Inputs,
        m: int,
        cumulants: tuple[int, ...],
        actions: int,
        width: int,
        depth: int,
        relational: bool,
        key: PRNGKeyArray,
    ):
        """`cumulants` is the shape of what is learnt of a policy: (m,) with the trick, (k, m) in full."""

        def trunk(key: PRNGKeyArray) -> Trunk:
            return Trunk(inputs, (m, *cumulants), actions, width, depth, relational, key)

        self.trunks = eqx.filter_vmap(trunk)(jax.random.split(key, inputs.features))

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, "..."]:
        """[n] → [k, m, m, actions], or [k, m, k, m, actions] in full."""
        return eqx.filter_vmap(lambda trunk: trunk(x), in_axes=eqx.if_array(0))(self.trunks)


class GoalConditioned(eqx.Module):
    """The paper's network: state and policy specifier into `width` units each, multiplied, and two more layers."""

    state: eqx.nn.Linear
    specifier: eqx.nn.Linear
    layers: list[eqx.nn.Linear]
    head: Dueling | Head
    inputs: Inputs = eqx.field(static=True)
    k: int = eqx.field(static=True)
    m: int = eqx.field(static=True)

    def __init__(self, inputs: Inputs, m: int, cumulants: tuple[int, ...], actions: int, width: int, key: PRNGKeyArray):
        """`cumulants` is the shape of what is learnt of a policy: (m,) with the trick, (k, m) in full."""
        keys, k = jax.random.split(key, 5), inputs.features
        self.inputs = inputs
        self.state = eqx.nn.Linear(k + inputs.others, width, key=keys[0])
        self.specifier = eqx.nn.Linear(k * m, width, key=keys[1])
        self.layers = [eqx.nn.Linear(width, width, key=key) for key in keys[2:4]]
        self.head = Dueling(width, cumulants, actions, keys[4])
        self.k, self.m = k, m

    def policy(self, x: Float[Array, " n"], i: Int[Array, ""], j: Int[Array, ""]) -> Float[Array, "..."]:
        """Successor features of policy (i, j): [n] → [m, actions], or [k, m, actions] in full."""
        dtype = self.state.weight.dtype
        specifier = jax.nn.one_hot(i * self.m + j, self.k * self.m, dtype=dtype)
        x = jax.nn.leaky_relu(self.state(centred(x, self.inputs).astype(dtype)), 0.1)
        x = x * jax.nn.leaky_relu(self.specifier(specifier), 0.1)
        for layer in self.layers:
            x = jax.nn.leaky_relu(layer(x), 0.1)
        return self.head(x)

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, "..."]:
        """Every policy's successor features, one pass each."""
        features, bins = jnp.arange(self.k), jnp.arange(self.m)
        return jax.vmap(lambda i: jax.vmap(lambda j: self.policy(x, i, j))(bins))(features)


@runtime_checkable
class Network(Protocol):
    """Called on what is seen, the k features first, it gives every policy's successor features [k, m, (k,) m, a]."""

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, "..."]:
        """[n] → [k, m, m, a], or [k, m, k, m, a] in full."""


def make_network(config: FreePlay, inputs: Inputs, actions: int, key: PRNGKeyArray) -> Network:
    """The network that the settings name."""
    k, m = inputs.features, config.bins
    cumulants = (k, m) if config.full_matrix else (m,)
    if config.network == "goal_conditioned":
        return GoalConditioned(inputs, m, cumulants, actions, config.width, key)
    if config.network == "trunk_per_feature":
        return TrunkPerFeature(inputs, m, cumulants, actions, config.width, config.depth, config.relational, key)
    return Trunk(inputs, (k, m, *cumulants), actions, config.width, config.depth, config.relational, key)


def own_value(psi: Float[Array, "k m *cumulants a"]) -> Float[Array, "k m a"]:
    """Each policy's value for its own cumulant, whose argmax it plays: [k, m, (k,) m, a] → [k, m, a]."""
    return _own(psi, 1)


def _own(columns: Array, others: int) -> Array:
    """What belongs to each policy's own cumulant: [k, m, (k,) m, *others] → [k, m, *others]."""
    full = columns.ndim - others == 4
    return jnp.einsum("ijij...->ij..." if full else "ijj...->ij...", columns)


def merged(network: Network) -> Network:
    """The same function with a head of one layer: a batch then needs no pass for the means of its advantages."""
    if isinstance(network, TrunkPerFeature):
        return eqx.tree_at(lambda net: net.trunks, network, eqx.filter_vmap(merged)(network.trunks))
    return eqx.tree_at(lambda net: net.head, network, network.head.merged())  # type: ignore[attr-defined]


def own_values(network: Network) -> Callable[[Float[Array, " n"]], Float[Array, "k m a"]]:
    """What gives `own_value` of a merged network, and computes nothing else where it can."""
    if isinstance(network, GoalConditioned):  # its head is the same for all policies
        return lambda x: own_value(network(x))

    def head(net: Network) -> Head:
        return (net.trunks if isinstance(net, TrunkPerFeature) else net).head  # type: ignore[attr-defined]

    columns = head(network)
    return eqx.tree_at(head, network, Head(_own(columns.weight, 2), _own(columns.bias, 1)))
