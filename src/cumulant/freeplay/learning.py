"""Stage 2, free play: learning Ψ without rewards. Environment, replay and learning are one compiled program."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from cumulant.config import FreePlay, check_memory
from cumulant.features.coordinates import Features, Inputs, inputs_of, resolution_of, world_of
from cumulant.freeplay.networks import GoalConditioned, Network, make_network, merged, own_values
from cumulant.freeplay.replay import Replay, Transition, add, empty, sample
from cumulant.goals.bins import phi
from cumulant.worlds.protocol import Episodes, World, advance, at_once, begin, ends

FINAL_RATE = 0.01  # of the learning rate, as a share of the first


class Training(NamedTuple):
    """All that training carries from update to update: a run goes on from it as if nothing had happened."""

    network: Network
    target: Network
    optimiser: PyTree
    replay: Replay
    episodes: Episodes
    x: Float[Array, "n inputs"]  # what is seen of each copy of the world now, the features first
    policy: Int[Array, "n 2"]  # the feature and the bin that each copy of the world goes for
    key: PRNGKeyArray
    update: Int[Array, ""]


@eqx.filter_jit
def start(world: World, config: FreePlay, features: Features, key: PRNGKeyArray) -> Training:
    """The first moment of free play."""
    world, inputs = world_of(features, world), inputs_of(features, world)
    key_network, key_worlds, key_policy, key_train = jax.random.split(key, 4)
    network = make_network(config, inputs, world.num_actions, key_network)
    episodes = begin(world, key_worlds, config.num_envs)
    training = Training(
        network=network,
        target=jax.tree.map(lambda leaf: leaf.copy() if eqx.is_array(leaf) else leaf, network),
        optimiser=_optimiser(config).init(eqx.filter(network, eqx.is_inexact_array)),
        replay=empty(_example(inputs, ends(world)), config.replay, inputs.features),
        episodes=episodes,
        x=jnp.copy(_seen(world, features, episodes)),  # a world may show its very state, and buffers are donated
        policy=_random_policies(config, inputs.features, key_policy),
        key=key_train,
        update=jnp.zeros((), jnp.int32),
    )
    if at_once(world) is None:
        return training
    return collect(world, config, features, training, key_policy)  # for the first update, which comes before a step


def check_size(world: World, config: FreePlay, features: Features) -> None:
    """OutOfBounds for settings that take more memory than there is, by what is sure to be needed at once."""
    first = eqx.filter_eval_shape(start, world, config, features, jax.random.key(0))
    arrays = [leaf for leaf in jax.tree.leaves(first) if isinstance(leaf, jax.ShapeDtypeStruct)]
    hidden = 4 * config.batch * config.width  # bytes of one layer's units, for every transition of an update
    sizes = f"replay {config.replay:,}, num_envs {config.num_envs:,}, batch {config.batch:,}, width {config.width:,}"
    check_memory(f"free play with {sizes}", sum(leaf.size * leaf.dtype.itemsize for leaf in arrays) + hidden)


def _seen(world: World, features: Features, episodes: Episodes) -> Float[Array, "n inputs"]:
    return jax.vmap(lambda state: features(world.observe(state)))(episodes.state)


def _example(inputs: Inputs, ends: bool) -> Transition:
    nothing = jnp.zeros(inputs.features + inputs.others)
    done = jnp.zeros((), bool) if ends else None
    return Transition(nothing, jnp.zeros((), jnp.int32), nothing, jnp.zeros(2, jnp.int32), done)


def train(
    world: World, config: FreePlay, features: Features, training: Training, until: Int[Array, ""]
) -> tuple[Training, Float[Array, ""]]:
    """Rounds of a step in every copy of the world and an update, up to update `until`; returns the mean loss."""
    world = world_of(features, world)
    first, going_on = training.update, _beside_the_host if at_once(world) is not None else _one_after_the_other
    training, total = going_on(world, config, features, training, until)
    return training, total / jnp.maximum(until - first, 1)


def _one_after_the_other(
    world: World, config: FreePlay, features: Features, training: Training, until: Int[Array, ""]
) -> tuple[Training, Float[Array, ""]]:
    """An update learns from the step before it, too."""

    def step(_: Array, carry: tuple[Training, Array]) -> tuple[Training, Array]:
        training, total = carry
        key, key_play, key_learn = jax.random.split(training.key, 3)
        training = collect(world, config, features, training._replace(key=key), key_play)
        training, loss = learn(config, training, key_learn)
        return training, total + loss

    return jax.lax.fori_loop(training.update, until, step, (training, jnp.zeros(())))


def _beside_the_host(
    world: World, config: FreePlay, features: Features, training: Training, until: Int[Array, ""]
) -> tuple[Training, Float[Array, ""]]:
    """An update needs nothing of the step beside it, so that the host takes that while the network learns."""

    def step(_: Array, carry: tuple[Training, Array]) -> tuple[Training, Array]:
        training, total = carry
        key, key_play, key_learn = jax.random.split(training.key, 3)
        action = choose(world, config, training, key_play)
        begun = jax.vmap(world.foresee)(training.episodes.state, action)  # type: ignore[attr-defined]
        learnt, loss = learn(config, training._replace(key=key), _after(begun, key_learn))
        episodes = _after(eqx.filter(learnt.network, eqx.is_array), training.episodes)
        return experience(world, config, features, learnt._replace(episodes=episodes), action, key_play), total + loss

    return jax.lax.fori_loop(training.update, until, step, (training, jnp.zeros(())))


def _after(others: PyTree, values: PyTree) -> PyTree:
    """The values, which a program cannot use before it has the others: XLA forgets mere barriers on a CPU."""
    marks = jnp.stack([leaf.ravel()[0].astype(jnp.float32) for leaf in jax.tree.leaves(others)])
    there = (marks != -jnp.inf).any()  # always, but no compiler knows
    return jax.tree.map(lambda leaf: jnp.where(there, leaf, jnp.zeros_like(leaf)), values)


def collect(world: World, config: FreePlay, features: Features, training: Training, key: PRNGKeyArray) -> Training:
    """One step of every copy under its policy, ε-greedily, into the replay."""
    return experience(world, config, features, training, choose(world, config, training, key), key)


def choose(world: World, config: FreePlay, training: Training, key: PRNGKeyArray) -> Int[Array, " n"]:
    """An action for every copy, of its policy, ε-greedily."""
    key_random, key_explore = jax.random.split(key, 5)[:2]
    n = config.num_envs
    network = _for_batches(config, training.network)
    greedy = jax.vmap(partial(_greedy, config, network))(training.x, training.policy)
    explore = jax.random.uniform(key_explore, (n,)) < jnp.geomspace(config.epsilon_low, config.epsilon_high, n)
    return jnp.where(explore, jax.random.randint(key_random, (n,), 0, world.num_actions), greedy)


def experience(
    world: World, config: FreePlay, features: Features, training: Training, action: Int[Array, " n"], key: PRNGKeyArray
) -> Training:
    """One step of every copy, into the replay."""
    key_reset, key_switch, key_policy = jax.random.split(key, 5)[2:]
    n, x = config.num_envs, training.x
    episodes, timestep = advance(world, training.episodes, action, key_reset)
    next_x = jax.vmap(features)(timestep.final_obs)
    transition = Transition(x, action, next_x, training.policy, timestep.done if ends(world) else None)
    # Where no episode ended, what comes next was seen already, and an encoder need not look twice.
    x = jax.lax.cond(timestep.ended.any(), lambda: _seen(world, features, episodes), lambda: next_x)
    switch = timestep.ended
    if config.switch_every:
        switch |= jax.random.uniform(key_switch, (n,)) < 1 / config.switch_every
    others = _random_policies(config, len(training.replay.changes), key_policy)
    policy = jnp.where(switch[:, None], others, training.policy)
    replay = add(training.replay, transition, config.stratified, resolution_of(features, world))
    return training._replace(replay=replay, episodes=episodes, x=x, policy=policy)


def _random_policies(config: FreePlay, k: int, key: PRNGKeyArray) -> Int[Array, "n 2"]:
    return jax.random.randint(key, (config.num_envs, 2), 0, jnp.array([k, config.bins]))


def _greedy(config: FreePlay, network: Network, x: Float[Array, " n"], policy: Int[Array, "2"]) -> Int[Array, ""]:
    """The action of policy (i, j)."""
    i, j = policy
    if isinstance(network, GoalConditioned):
        psi = network.policy(x, i, j)
        return (psi[i, j] if config.full_matrix else psi[j]).argmax()
    return own_values(network)(x)[i, j].argmax()


def learn(config: FreePlay, training: Training, key: PRNGKeyArray) -> tuple[Training, Float[Array, ""]]:
    """One update of the network, and of the target that follows it."""
    return update(config, training, sample(training.replay, key, config.batch))


def update(config: FreePlay, training: Training, batch: Transition) -> tuple[Training, Float[Array, ""]]:
    """One update from the batch."""
    value, gradients = eqx.filter_value_and_grad(partial(loss, config))(training.network, training.target, batch)
    updates, state = _optimiser(config).update(gradients, training.optimiser)
    network = eqx.apply_updates(training.network, updates)
    target = optax.incremental_update(
        *(eqx.filter(n, eqx.is_array) for n in (network, training.target)), config.target_rate
    )
    target = eqx.combine(target, network)
    return training._replace(network=network, target=target, optimiser=state, update=training.update + 1), value


def _optimiser(config: FreePlay) -> optax.GradientTransformation:
    rate = optax.schedules.linear_schedule(config.learning_rate, FINAL_RATE * config.learning_rate, config.updates)
    return optax.adam(rate)


def loss(config: FreePlay, network: Network, target: Network, batch: Transition) -> Float[Array, ""]:
    """Mean Huber loss over the batch, the policies and their cumulants; over the acting policies alone, if set so."""
    network, target = _for_batches(config, network), _for_batches(config, target)
    each = _acting_policy_errors if config.acting_policy_only else _all_policies_errors
    return jax.vmap(partial(each, config, network, target))(batch).mean()


def _all_policies_errors(
    config: FreePlay, network: Network, target: Network, step: Transition
) -> Float[Array, "k m *cumulants"]:
    """Huber errors of every policy, whichever made the transition."""
    psi, behind = network(step.x), target(step.next_x)
    choice = own_values(network)(step.next_x).argmax(axis=-1)  # double: the network chooses, the target values
    choice = choice.reshape(*choice.shape, *[1] * (psi.ndim - 2))
    following = jnp.take_along_axis(behind, choice, axis=-1)[..., 0]
    cumulants = phi(step.x[: psi.shape[0]], config.bins)
    cumulants = cumulants[None, None] if config.full_matrix else cumulants[:, None]
    return _huber(config, psi[..., step.action], cumulants, _if_it_goes_on(step, following))


def _acting_policy_errors(
    config: FreePlay, network: Network, target: Network, step: Transition
) -> Float[Array, "*cumulants"]:
    """Huber errors of the policy that made the transition, the paper's rule."""
    i, j = step.policy
    psi, next_psi, behind = (
        net.policy(x, i, j) if isinstance(net, GoalConditioned) else net(x)[i, j]
        for net, x in ((network, step.x), (network, step.next_x), (target, step.next_x))
    )
    choice = (next_psi[i, j] if config.full_matrix else next_psi[j]).argmax()
    cumulants = phi(step.x, config.bins)
    cumulants = cumulants[: len(psi)] if config.full_matrix else cumulants[i]
    return _huber(config, psi[..., step.action], cumulants, _if_it_goes_on(step, behind[..., choice]))


def _if_it_goes_on(step: Transition, following: Array) -> Array:
    """What follows a transition: nothing, where the world could not go on."""
    return following if step.done is None else jnp.where(step.done, 0, following)


def _huber(config: FreePlay, psi: Array, cumulants: Array, following: Array) -> Array:
    """Errors against φ(s) + γ ψ(s', π(s')), all scaled by 1 - γ."""
    following = jnp.clip(following, 0, 1) if config.clipped else following
    goal = (1 - config.gamma) * cumulants + config.gamma * following.astype(jnp.float32)
    return optax.losses.huber_loss(psi.astype(jnp.float32), jax.lax.stop_gradient(goal))


def _for_batches(config: FreePlay, network: Network) -> Network:
    """The network as batches pass through it, bfloat16 where it is set; gradients still reach the float32 weights."""
    network = merged(network)
    if not config.half_precision:
        return network
    return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16) if eqx.is_inexact_array(leaf) else leaf, network)
