"""What a policy is, and how episodes are played with one: by every command, the page and the experiments alike."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree, Shaped

from cumulant.goals import plans
from cumulant.goals.phrases import shortened
from cumulant.goals.plans import Plan, PlanTable, Progress
from cumulant.goals.rewards import RewardTable, value
from cumulant.goals.tasks import GoalTable, Task, reached
from cumulant.worlds.protocol import Goal, World, at_once, done_in, step_unless
from cumulant.worlds.seen import observation_rank, seen

# Frames seen at once: each takes up to a few hundred kilobytes on its way through an encoder.
_FRAMES_AT_ONCE = {"cpu": 1024, "elsewhere": 16_384}

_STRIDE = 8  # steps from one look at whether all episodes are over to the next

Reward = Callable[[PyTree], Float[Array, ""]]  # of a state


class Policy(NamedTuple):
    """Pure functions: `begin` looks at the first observation, `act` at each one. Memory is any pytree, () for none.

    >>> import jax, cumulant
    >>> policy = cumulant.random_policy(cumulant.Spriteworld())
    >>> obs = jax.numpy.zeros(6)
    >>> memory, action = policy.act(policy.begin(obs), obs, jax.random.key(0))
    >>> action.shape
    ()
    >>> policy
    Policy(random_policy)
    """

    begin: Callable[..., PyTree]
    act: Callable[[PyTree, PyTree, PRNGKeyArray], tuple[PyTree, Int[Array, ""]]]
    sees: Callable[[World], World] = partial(seen, as_features=False)  # the world whose observations these are
    about: str = ""  # what it is for, in words
    in_stages: bool = False  # whether `begin` also takes the stage of a plan to begin with

    def __repr__(self) -> str:
        made = getattr(self.act, "__qualname__", type(self.act).__name__).partition(".<locals>")[0]
        return f"Policy({shortened(self.about) or made})"


# Makes the policy for a goal from a guide to it: the goal's table for the oracle, weights for GPI. May be a Module.
PolicyMaker = Callable[[Any, Any], Policy]


class GoalTracker(NamedTuple):
    """How far a goal has come in an episode: pure functions that follow it from state to state."""

    begin: Callable[[PyTree, Any], Progress]  # the first state, and the stage to begin with
    follow: Callable[[Progress, PyTree], Progress]  # the progress so far, and the state that follows
    stages: Int[Array | np.ndarray, ""] | int = 1  # of the goal: there is the world's time limit for each of them
    most: int = 1  # stages that there is room for

    def success(self, progress: Progress) -> Bool[Array, "*n"]:
        """Return whether all stages are reached."""
        return progress.stage >= self.stages

    def over(self, progress: Progress) -> Bool[Array, "*n"]:
        """Return whether nothing more can come of it: success, or the first violation."""
        return jnp.asarray(progress.violated) | self.success(progress)


class Rollout(NamedTuple):
    """One episode. After its end time stands still: the later states repeat, and actions mean nothing."""

    states: PyTree  # leading axis t + 1
    actions: Int[Array, " t"]
    success: Bool[Array, ""]
    steps: Int[Array, ""]  # taken until the end
    memories: PyTree  # the policy's after each action, leading axis t: what it had in mind
    progress: Progress  # at the end
    stages: Int[Array, " t+1"]  # the current one in each state


def random_policy(world: World, table: Any = None) -> Policy:
    """Random play, the lower bound, whatever the task.

    >>> import cumulant
    >>> cumulant.random_policy(cumulant.Spriteworld()).begin(None)
    ()
    """
    return Policy(lambda obs: (), lambda memory, obs, key: (memory, jax.random.randint(key, (), 0, world.num_actions)))


def episode_keys(seed: int, episodes: int) -> Key[Array, " episodes"]:
    """The keys, for `play`, of the episodes of seed, seed + 1, ...: everywhere the same episodes for the same seed."""
    return jax.vmap(jax.random.key)(np.uint32(seed) + np.arange(episodes, dtype=np.uint32))


def play(world: World, policy: Policy, goal: Goal | GoalTracker | Task | Plan, key: PRNGKeyArray) -> Rollout:
    """Play an episode from a random start, until the goal or the time limit. A start inside the goal is a success.

    The time limit holds for each stage of a plan: a plan of three has three times as long. It ends at its first
    violation, too.

    Args:
        world: The world; the policy sees it as it is made to.
        policy: Who acts.
        goal: A task, a plan, or any predicate on states.
        key: The episode's: `episode_keys` says which is that of a seed.

    >>> import jax, cumulant
    >>> world = cumulant.Spriteworld(max_steps=20)
    >>> never = lambda state: state.agent[0] > 2
    >>> episode = cumulant.play(world, cumulant.random_policy(world), never, jax.random.key(0))
    >>> bool(episode.success), int(episode.steps), episode.states.agent.shape
    (False, 20, (21, 2))
    >>> plan = cumulant.parse_plan("agent left then agent right")
    >>> library = cumulant.Library.load()
    >>> episode = cumulant.play(library.world, library.policy(plan), plan, jax.random.key(0))
    >>> bool(episode.success), int(episode.progress.stage)
    (True, 2)

    """
    world = policy.sees(world)
    key_start, key_act = jax.random.split(key)
    return rollout(world, policy, goal, world.reset(key_start), key_act)


def rollout(
    world: World,
    policy: Policy,
    goal: Goal | GoalTracker | Task | Plan,
    start: PyTree,
    key: PRNGKeyArray,
    length: int | None = None,
    stage: Int[Array | np.ndarray, ""] | int = 0,
    stop: Int[Array | np.ndarray, ""] | None = None,
    together: tuple[str, ...] = (),
    record: bool = True,
) -> Rollout:
    """Play an episode from a given start: the only place where a policy meets a world.

    Args:
        world: The world as the policy sees it.
        policy: Who acts.
        goal: What ends the episode.
        start: The first state.
        key: The t-th action has the t-th part of it, however long the episode may be.
        length: The steps that there is time for, if not the world's limit for each stage.
        stage: The stage to begin with.
        stop: The steps after which to stop on the way; another episode can go on from there.
        together: Axes of `vmap` whose episodes are played side by side: once all are over, nothing is computed.
        record: Whether to keep states, actions, memories and stages; else there are none.

    """
    tracker = tracker_of(world, goal)
    limit: Any = world.max_steps * tracker.stages if length is None else length
    limit = limit if stop is None else jnp.minimum(stop, limit)
    length = world.max_steps * tracker.most if length is None else length

    def over(state: PyTree, progress: Progress, steps: Int[Array, ""]) -> Bool[Array, ""]:
        return tracker.over(progress) | done_in(world, state) | (steps >= limit)

    def step(carry: tuple, key: PRNGKeyArray) -> tuple[tuple, tuple]:
        state, memory, progress, steps = carry
        ended = over(state, progress, steps)
        memory, action = policy.act(memory, world.observe(state), key)
        following = step_unless(world, ended, state, action)
        progress = tracker.follow(progress, following)
        now = (following, jnp.asarray(action, jnp.int32), memory, progress.stage)
        return (following, memory, progress, steps + ~ended), now if record else ()

    def some(carry: tuple, keys: Key[Array, " n"]) -> tuple[tuple, tuple]:
        return jax.lax.scan(step, carry, keys)

    def none(carry: tuple, keys: Key[Array, " n"]) -> tuple[tuple, tuple]:
        state, memory, progress, _ = carry
        now = (state, jnp.int32(0), memory, progress.stage) if record else ()
        return carry, jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(keys), *leaf.shape)), now)

    def unless_over(carry: tuple, keys: Key[Array, " n"]) -> tuple[tuple, tuple]:
        state, _, progress, steps = carry
        ended = jax.lax.pmin(over(state, progress, steps).astype(jnp.int32), together)
        return jax.lax.cond(ended == 1, none, some, carry, keys)

    progress = tracker.begin(start, stage)
    obs = world.observe(start)
    memory = policy.begin(obs, stage) if policy.in_stages else policy.begin(obs)
    carry = (start, memory, progress, jnp.zeros((), jnp.int32))
    if together and at_once(world) is None:  # on the host, what is over costs no step anyway
        keys = jax.random.split(key, (-(-length // _STRIDE), _STRIDE))
        carry, recorded = jax.lax.scan(unless_over, carry, keys)
        recorded = jax.tree.map(lambda leaf: leaf.reshape(keys.size, *leaf.shape[2:])[:length], recorded)
    else:
        carry, recorded = some(carry, jax.random.split(key, length))
    _, _, ending, steps = carry
    if not record:
        nothing = jnp.zeros(0, jnp.int32)
        return Rollout((), nothing, tracker.success(ending), steps, (), ending, nothing)
    states, actions, memories, stages = recorded
    states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, states)
    stages = jnp.concatenate([progress.stage[None], stages])
    return Rollout(states, actions, tracker.success(ending), steps, memories, ending, stages)


def tracker_of(
    world: World, goal: Goal | GoalTracker | Task | Plan | PlanTable | Bool[Array | np.ndarray, "c k m"]
) -> GoalTracker:
    """Return what follows a goal in a world: a predicate on states, a task, a plan, or the table of one."""
    if isinstance(goal, GoalTracker):
        return goal
    if isinstance(goal, Task):
        goal = jax.tree.map(lambda leaf: leaf[0, ...], plans.tables_of([goal]))
    table = goal.table() if isinstance(goal, Plan) else goal
    if isinstance(table, PlanTable):
        table = jax.tree.map(jnp.asarray, table)
        return GoalTracker(
            begin=lambda state, stage: plans.begin(table, world.features(state), stage),
            follow=lambda progress, state: plans.follow(table, progress, world.features(state)),
            stages=table.stages,
            most=len(table.goal.allowed),
        )
    holds = table if callable(table) else goal_of(world, jnp.asarray(table))

    def progress(done: Bool[Array, ""]) -> Progress:
        no = jnp.zeros((), bool)
        return Progress(jnp.asarray(done, jnp.int32), no, no, no)

    return GoalTracker(
        lambda state, stage: progress(holds(state)), lambda before, state: progress((before.stage > 0) | holds(state))
    )


class Staged(NamedTuple):
    """What a policy for a plan remembers: the stage it believes to be in, and the memory of that stage's policy."""

    stage: Int[Array, ""]
    memory: PyTree


def in_stages(
    policy_at: Callable[[Int[Array, ""]], Policy],
    holds: Callable[[Shaped[Array, "..."]], Bool[Array, " s"]],
    stages: Int[Array, ""],
) -> Policy:
    """The policy for a plan: in each stage that stage's own, begun anew where the stage begins.

    `holds` tells from an observation which stages' goals hold, as far as the player can see.
    """

    def begin(obs: Array, stage: Int[Array, ""] | int = 0) -> Staged:
        return enter(plans.next_stage(holds(obs), jnp.asarray(stage, jnp.int32), stages), obs)

    def enter(stage: Int[Array, ""], obs: Array) -> Staged:
        return Staged(stage, policy_at(jnp.minimum(stage, stages - 1)).begin(obs))

    def act(now: Staged, obs: Array, key: PRNGKeyArray) -> tuple[Staged, Int[Array, ""]]:
        stage = plans.next_stage(holds(obs), now.stage, stages)
        entered = enter(stage, obs)
        memory = jax.tree.map(lambda new, old: jnp.where(stage > now.stage, new, old), entered.memory, now.memory)
        memory, action = policy_at(jnp.minimum(stage, stages - 1)).act(memory, obs, key)
        return Staged(stage, memory), action

    return policy_at(jnp.int32(0))._replace(begin=begin, act=act, in_stages=True)


def play_many(world: World, policy: Policy, goal: Goal | GoalTracker | Task | Plan, keys: Key[Array, " n"]) -> Rollout:
    """The episodes of many keys, side by side: leaves have a leading axis n."""
    return jax.vmap(lambda key: play(world, policy, goal, key))(keys)


def goal_of(world: World, table: Bool[Array, "c k m"] | GoalTable) -> Goal:
    """Whether a state is where a task wants it, as `Task.table` describes the task."""
    return lambda state: reached(table, world.features(state))


def reward_of(world: World, table: Bool[Array, "c k m"] | GoalTable | RewardTable) -> Reward:
    """A reward of the state: of a task's table, 1 where the task holds and 0 elsewhere."""
    if isinstance(table, RewardTable):
        return lambda state: value(table, world.features(state))
    return lambda state: reached(table, world.features(state)).astype(jnp.float32)


@eqx.filter_jit
def rollouts(
    world: World,
    make_policy: PolicyMaker,
    tables: PlanTable | Bool[Array, "tasks c k m"],
    guides: PyTree[Shaped[Array | np.ndarray, "tasks ..."]],
    keys: Key[Array, "*tasks episodes"],
    start: PyTree | None = None,
    stage: Int[Array | np.ndarray, ""] | int = 0,
    stop: Int[Array | np.ndarray, ""] | None = None,
) -> Rollout:
    """Play an episode for every goal and key, as one program for all goals whose tables have one shape.

    Args:
        world: The world.
        make_policy: Makes the policy for a goal from its guide.
        tables: The goals, as `goals.plans.tables_of` gives them.
        guides: What the policies are made from.
        keys: Those of the episodes, as for `play`. Of a single goal, they need no leading axis.
        start: The first state of all episodes, if not a random one each.
        stage: The stage to begin with, as for `rollout`.
        stop: The steps after which to stop, as for `rollout`.

    Returns:
        The episodes; leaves have the leading axes of the keys.

    """
    return _rollouts(world, make_policy, tables, guides, keys, start, stage, stop)


@eqx.filter_jit
def endings(
    world: World,
    make_policy: PolicyMaker,
    tables: PlanTable | Bool[Array, "tasks c k m"],
    guides: PyTree[Shaped[Array | np.ndarray, "tasks ..."]],
    keys: Key[Array, "*tasks episodes"],
) -> tuple[Bool[Array, "*tasks episodes"], Int[Array, "*tasks episodes"], Bool[Array, "*tasks episodes"]]:
    """Return success, steps, and whether a plan was violated, of the episodes of `rollouts`; nothing else is kept."""
    ended = _rollouts(world, make_policy, tables, guides, keys, record=False)
    return ended.success, ended.steps, jnp.asarray(ended.progress.violated)


def _rollouts(
    world: World,
    make_policy: PolicyMaker,
    tables: PlanTable | Bool[Array, "tasks c k m"],
    guides: PyTree[Shaped[Array | np.ndarray, "tasks ..."]],
    keys: Key[Array, "*tasks episodes"],
    start: PyTree | None = None,
    stage: Int[Array | np.ndarray, ""] | int = 0,
    stop: Int[Array | np.ndarray, ""] | None = None,
    record: bool = True,
) -> Rollout:
    def one(table: PyTree, guide: PyTree, key: PRNGKeyArray, together: tuple[str, ...] = ()) -> Rollout:
        policy = make_policy(world, guide)
        seen = policy.sees(world)
        key_start, key_act = jax.random.split(key)
        first = seen.reset(key_start) if start is None else start
        return rollout(seen, policy, tracker_of(seen, table), first, key_act, None, stage, stop, together, record)

    if keys.ndim == 1:
        played = over_episodes(world, one, (tables, guides), keys[None], ends_early=True)
        return jax.tree.map(lambda leaf: leaf[0], played)
    return over_episodes(world, one, (tables, guides), keys, ends_early=True)


def over_episodes(
    world: World,
    function: Callable[..., PyTree],
    xs: PyTree[Shaped[Array, "tasks ..."]],
    keys: Key[Array, "tasks n"],
    ends_early: bool = False,
) -> PyTree[Shaped[Array, "tasks n ..."]]:
    """Return the function of each task's part of `xs` and each of its keys: all at once, or in waves as `world` says.

    What `ends_early` is told the axes of the episodes played side by side, as `together`. A processor takes a few tasks
    at a time then: a part is as long as its longest.
    """
    (tasks, episodes), most = keys.shape, at_once(world)

    def of(task: Int[Array, ""] | int) -> tuple:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[task], tuple(xs))

    if most is not None:
        pairs = _in_parts(lambda i: function(*of(i // episodes), keys[i // episodes, i % episodes]), keys.size, most)
        return jax.tree.map(lambda leaf: leaf.reshape(*keys.shape, *leaf.shape[1:]), pairs)

    def task(i: Int[Array, ""] | int, *axes: str) -> PyTree:
        each = partial(function, together=axes) if ends_early else function
        return jax.vmap(partial(each, *of(i)), axis_name="episodes")(keys[i])

    if tasks == 1:  # to trace it for many tasks takes half as long again
        return jax.tree.map(lambda leaf: leaf[None], task(0, "episodes"))
    size = _tasks_at_once(world, episodes, ends_early) or tasks
    return _in_parts(lambda i: task(i, "tasks", "episodes"), tasks, size)


def _in_parts(function: Callable[[Int[Array, ""]], PyTree], number: int, most: int) -> PyTree:
    """The function of 0, 1, ..., so many at a time at most; the last part is filled up, so that one loop does all."""
    size = -(-number // -(-number // most))
    which = jnp.arange(-(-number // size) * size) % number
    found = jax.lax.map(jax.vmap(function, axis_name="tasks"), which.reshape(-1, size))
    return jax.tree.map(lambda leaf: leaf.reshape(len(which), *leaf.shape[2:])[:number], found)


def over_tasks(world: World, function: Callable[..., PyTree], xs: tuple, copies: int) -> PyTree:
    """Return the function of all tasks at once; or of a few at a time, of so many copies each."""
    if at_once(world) is not None or len(xs[-1]) == 1:  # where copies are few, each task has the whole world to itself
        return jax.lax.map(lambda x: function(*x), xs)
    size = _tasks_at_once(world, copies)
    return jax.vmap(function)(*xs) if size is None else jax.lax.map(lambda x: function(*x), xs, batch_size=size)


def _tasks_at_once(world: World, copies: int, ends_early: bool = False) -> int | None:
    """How many tasks of so many copies to play side by side, if not all: few where the world shows frames."""
    on_cpu = jax.default_backend() == "cpu"
    if observation_rank(world) == 1 and not (ends_early and on_cpu):
        return None
    return max(1, _FRAMES_AT_ONCE["cpu" if on_cpu else "elsewhere"] // copies)
