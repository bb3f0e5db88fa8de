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
from cumulant.goals.tasks import Task, reached
from cumulant.worlds.protocol import Goal, World, at_once, done_in, step_unless
from cumulant.worlds.seen import observation_rank, seen

# Frames seen at once: each takes up to a few hundred kilobytes on its way through an encoder.
_FRAMES_AT_ONCE = {"cpu": 1024, "elsewhere": 16_384}

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

    begin: Callable[[PyTree], PyTree]
    act: Callable[[PyTree, PyTree, PRNGKeyArray], tuple[PyTree, Int[Array, ""]]]
    sees: Callable[[World], World] = partial(seen, as_features=False)  # the world whose observations these are
    about: str = ""  # what it is for, in words

    def __repr__(self) -> str:
        made = getattr(self.act, "__qualname__", type(self.act).__name__).partition(".<locals>")[0]
        return f"Policy({shortened(self.about) or made})"


# Makes the policy for a goal from a guide to it: the goal's table for the oracle, weights for GPI. May be a Module.
PolicyMaker = Callable[[Any, Any], Policy]


class Course(NamedTuple):
    """What an episode is to achieve: pure functions that follow it from state to state. Progress is any pytree."""

    begin: Callable[[PyTree], PyTree]  # of the first state
    follow: Callable[[PyTree, PyTree], PyTree]  # progress, and the state that follows
    success: Callable[[PyTree], Bool[Array, ""]]
    over: Callable[
        [PyTree, Int[Array, ""]], Bool[Array, ""]
    ]  # progress, and the steps taken: whether time stands still
    stages: int = 1  # for each of which there is the world's time limit


class Play(NamedTuple):
    """One episode. After the goal is reached, time stands still: the later states repeat."""

    states: PyTree  # leading axis max_steps + 1
    actions: Int[Array, " t"]
    success: Bool[Array, ""]
    steps: Int[Array, ""]  # taken until the goal, or max_steps
    memories: PyTree  # the policy's after each action, leading axis t: what it had in mind
    progress: PyTree  # at the end: of a plan, `Progress`; of a plain goal, whether it was reached


def random_policy(world: World, table: Bool[Array, "c k m"] | PlanTable | None = None) -> Policy:
    """Random play, the lower bound, whatever the task.

    >>> import cumulant
    >>> cumulant.random_policy(cumulant.Spriteworld()).begin(None)
    ()
    """
    return Policy(lambda obs: (), lambda memory, obs, key: (memory, jax.random.randint(key, (), 0, world.num_actions)))


def episode_keys(seed: int, episodes: int) -> Key[Array, " episodes"]:
    """The keys, for `play`, of the episodes of seed, seed + 1, ...: everywhere the same episodes for the same seed."""
    return jax.vmap(jax.random.key)(np.uint32(seed) + np.arange(episodes, dtype=np.uint32))


def play(world: World, policy: Policy, goal: Goal | Course | Task | Plan, key: PRNGKeyArray) -> Play:
    """An episode from a random start, until the goal or the time limit. A start inside the goal is a success.

    The goal is a task, a plan, or any predicate on states. The time limit holds for each stage of a plan: a plan of
    three has three times as long. It ends at its first violation, too.

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
    if isinstance(goal, Task | Plan):
        goal = aim_of(world, jax.tree.map(lambda leaf: leaf[0], plans.tables_of([goal])))
    return play_from(world, policy, goal, world.reset(key_start), key_act)


def play_from(
    world: World, policy: Policy, goal: Goal | Course, start: PyTree, key: PRNGKeyArray, steps: int | None = None
) -> Play:
    """An episode from a given start, of `steps` instead of the world's time limit if given."""
    course = goal if isinstance(goal, Course) else course_of(goal)
    (_, _, progress, taken), (states, actions, memories) = jax.lax.scan(
        _stepping(world, policy, course),
        _first(world, policy, course, start),
        jax.random.split(key, steps or world.max_steps * course.stages),
    )
    states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, states)
    return Play(states, actions, course.success(progress), taken, memories, progress)


def play_out(world: World, policy: Policy, goal: Goal | Course, key: PRNGKeyArray) -> tuple[PyTree, Int[Array, ""]]:
    """The progress and the steps with which the episode of `play` ends; nothing is played after its end."""
    if at_once(world) is not None:  # no such loop may call the host; and there, what is over costs no step anyway
        played = play(world, policy, goal, key)
        return played.progress, played.steps
    world = policy.sees(world)
    key_start, key_act = jax.random.split(key)
    course = goal if isinstance(goal, Course) else course_of(goal)
    step, first = _stepping(world, policy, course), _first(world, policy, course, world.reset(key_start))
    keys = jax.random.split(key_act, world.max_steps * course.stages)

    def goes_on(carry: tuple) -> Bool[Array, ""]:
        time, (state, _, progress, steps) = carry
        return (time < len(keys)) & ~course.over(progress, steps) & ~done_in(world, state)

    _, (_, _, progress, taken) = jax.lax.while_loop(
        goes_on, lambda carry: (carry[0] + 1, step(carry[1], keys[carry[0]])[0]), (0, first)
    )
    return progress, taken


def _first(world: World, policy: Policy, course: Course, start: PyTree) -> tuple:
    return start, policy.begin(world.observe(start)), course.begin(start), jnp.zeros((), jnp.int32)


def _stepping(world: World, policy: Policy, course: Course) -> Callable[[tuple, PRNGKeyArray], tuple[tuple, tuple]]:
    """One step of an episode, for `scan`. The carry is the state, the policy's memory, the progress, and the steps."""

    def step(carry: tuple, key: PRNGKeyArray) -> tuple[tuple, tuple]:
        state, memory, progress, steps = carry
        over = course.over(progress, steps) | done_in(world, state)
        memory, action = policy.act(memory, world.observe(state), key)
        following = step_unless(world, over, state, action)
        return (following, memory, course.follow(progress, following), steps + ~over), (following, action, memory)

    return step


def course_of(goal: Goal) -> Course:
    """The course of a plain goal: over as soon as it holds."""
    return Course(goal, lambda done, state: done | goal(state), lambda done: done, lambda done, steps: done)


def plan_course(world: World, table: PlanTable) -> Course:
    """The course of a plan: over when all stages are reached, at the first violation, or when its time is up."""

    def over(progress: Progress, steps: Int[Array, ""]) -> Bool[Array, ""]:
        return progress.violated | success(progress) | (steps >= world.max_steps * table.stages)

    def success(progress: Progress) -> Bool[Array, ""]:
        return progress.stage >= table.stages

    return Course(
        begin=lambda state: plans.begin(table, world.features(state)),
        follow=lambda progress, state: plans.follow(table, progress, world.features(state)),
        success=success,
        over=over,
        stages=len(table.goal),
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

    def begin(obs: Array) -> Staged:
        return enter(plans.next_stage(holds(obs), jnp.int32(0), stages), obs)

    def enter(stage: Int[Array, ""], obs: Array) -> Staged:
        return Staged(stage, policy_at(jnp.minimum(stage, stages - 1)).begin(obs))

    def act(now: Staged, obs: Array, key: PRNGKeyArray) -> tuple[Staged, Int[Array, ""]]:
        stage = plans.next_stage(holds(obs), now.stage, stages)
        entered = enter(stage, obs)
        memory = jax.tree.map(lambda new, old: jnp.where(stage > now.stage, new, old), entered.memory, now.memory)
        memory, action = policy_at(jnp.minimum(stage, stages - 1)).act(memory, obs, key)
        return Staged(stage, memory), action

    return Policy(begin, act, *policy_at(jnp.int32(0))[2:])


def play_many(world: World, policy: Policy, goal: Goal | Course | Task | Plan, keys: Key[Array, " n"]) -> Play:
    """The episodes of many keys, side by side: leaves have a leading axis n."""
    return jax.vmap(lambda key: play(world, policy, goal, key))(keys)


def goal_of(world: World, table: Bool[Array, "c k m"]) -> Goal:
    """Whether a state is where a task wants it, as `Task.table` describes the task."""
    return lambda state: reached(table, world.features(state))


def aim_of(world: World, table: Bool[Array, "c k m"] | PlanTable) -> Goal | Course:
    """What to play for: the goal of a task's table, or the course of a plan's."""
    return plan_course(world, table) if isinstance(table, PlanTable) else goal_of(world, table)


def reward_of(world: World, table: Bool[Array, "c k m"] | RewardTable) -> Reward:
    """A reward of the state: of a task's table, 1 where the task holds and 0 elsewhere."""
    if isinstance(table, RewardTable):
        return lambda state: value(table, world.features(state))
    return lambda state: reached(table, world.features(state)).astype(jnp.float32)


def attempt(
    world: World, make_policy: PolicyMaker, table: Bool[Array, "c k m"] | PlanTable, guide: Any, key: PRNGKeyArray
) -> Play:
    """One episode of the task or plan that the table describes, by the policy made from the guide."""
    policy = make_policy(world, guide)
    return play(world, policy, aim_of(policy.sees(world), table), key)


@eqx.filter_jit
def attempts(
    world: World,
    make_policy: PolicyMaker,
    tables: Bool[Array, "tasks c k m"] | PlanTable,
    guides: PyTree[Shaped[Array, "tasks ..."]],
    keys: Key[Array, "tasks episodes"],
) -> Play:
    """An episode for every task and key, from its start to its end: leaves are [tasks, episodes, ...]."""
    return over_episodes(world, partial(attempt, world, make_policy), (tables, guides), keys)


@eqx.filter_jit
def attempts_at_one(
    world: World,
    make_policy: PolicyMaker,
    tables: Bool[Array, "1 c k m"] | PlanTable,
    guides: PyTree[Shaped[Array, "1 ..."]],
    keys: Key[Array, " episodes"],
) -> Play:
    """The same of a single task: leaves are [episodes, ...]."""
    return jax.tree.map(lambda leaf: leaf[0], attempts(world, make_policy, tables, guides, keys[None]))


@eqx.filter_jit
def endings(
    world: World,
    make_policy: PolicyMaker,
    tables: Bool[Array, "tasks c k m"] | PlanTable,
    guides: PyTree[Shaped[Array, "tasks ..."]],
    keys: Key[Array, "tasks episodes"],
) -> tuple[Bool[Array, "tasks episodes"], Int[Array, "tasks episodes"], Bool[Array, "tasks episodes"]]:
    """Success, steps, and whether a plan was violated, of an episode for every task and key, all at once."""

    def ending(table: Any, guide: Any, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
        policy = make_policy(world, guide)
        aim = aim_of(policy.sees(world), table)
        progress, steps = play_out(world, policy, aim, key)
        if isinstance(aim, Course):
            return aim.success(progress), steps, progress.violated
        return progress, steps, jnp.zeros((), bool)

    return over_episodes(world, ending, (tables, guides), keys, ends_early=True)


def over_episodes(
    world: World,
    function: Callable[..., PyTree],
    xs: PyTree[Shaped[Array, "tasks ..."]],
    keys: Key[Array, "tasks n"],
    ends_early: bool = False,
) -> PyTree[Shaped[Array, "tasks n ..."]]:
    """The function of each task's part of `xs` and each of its keys: all at once, or in waves if the world says so."""
    most = at_once(world)
    if most is None and len(keys) == 1:  # to trace it for many tasks takes half as long again
        only = jax.tree.map(lambda leaf: leaf[0], tuple(xs))
        return jax.tree.map(lambda leaf: leaf[None], jax.vmap(partial(function, *only))(keys[0]))
    if most is None:
        each = jax.vmap(function, (*[None] * len(xs), 0))
        return over_tasks(world, each, (*xs, keys), keys.shape[1], ends_early)
    number, waves = keys.size, -(-keys.size // most)
    size = -(-number // waves)  # the last wave is filled up: waves must come one after the other, as one loop
    which = jnp.arange(waves * size) % number
    task, episode = which // keys.shape[1], which % keys.shape[1]
    pairs = (*jax.tree.map(lambda leaf: leaf[task], tuple(xs)), keys[task, episode])
    results = jax.lax.map(lambda x: function(*x), pairs, batch_size=size)
    return jax.tree.map(lambda leaf: leaf[:number].reshape(*keys.shape, *leaf.shape[1:]), results)


def over_tasks(
    world: World, function: Callable[..., PyTree], xs: tuple, copies: int, ends_early: bool = False
) -> PyTree:
    """All tasks at once; or a few at a time, of so many copies each, where the world shows frames.

    Where they may end early, a processor takes a few at a time in any world: a part is as long as its longest.
    """
    if at_once(world) is not None:  # with copies of its own, each task has the whole world to itself
        return jax.lax.map(lambda x: function(*x), xs)
    on_cpu = jax.default_backend() == "cpu"
    if observation_rank(world) == 1 and not (ends_early and on_cpu):
        return jax.vmap(function)(*xs)
    frames = _FRAMES_AT_ONCE["cpu" if on_cpu else "elsewhere"]
    return jax.lax.map(lambda x: function(*x), xs, batch_size=max(1, frames // copies))
