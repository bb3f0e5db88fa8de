"""Learning every task from scratch: DQN, and the search for its settings."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Key, PRNGKeyArray

from cumulant.freeplay.networks import Trunk
from cumulant.goals.tasks import tables_of
from cumulant.sweeps.experiments import Outcome
from cumulant.sweeps.judging import TUNING_SEED, rows_of
from cumulant.sweeps.run_folders import Row
from cumulant.worlds.episodes import goal_of, play
from cumulant.worlds.protocol import World
from cumulant_paper.baselines.dqn import Dqn, EpsilonGreedy, Learning, start, train
from cumulant_paper.experiments import WORLD, Costs, Part, Scale, check_finite, in_step

_SEARCH_STEPS = 200_000  # of a task, at most, in a search


@dataclass(frozen=True)
class FromScratch(Part):
    """DQN on every task by itself."""

    dqn: Dqn
    search: bool = False  # for its settings: shorter runs, on tasks drawn with another seed

    def settings(self) -> Dqn:
        """Return DQN's; whether they are searched for shows in the scale."""
        return self.dqn

    def scaled(self, scale: Scale) -> Scale:
        """Return a smaller one for a search, on other tasks."""
        if not self.search:
            return scale
        steps = tuple(step for step in scale.dqn_steps if step <= _SEARCH_STEPS)
        return replace(scale, task_seed=TUNING_SEED, tasks_per_class=1, seeds=scale.seeds[:2], dqn_steps=steps)

    def costs(self) -> Costs:
        """Return those of one task."""
        learning = eqx.filter_eval_shape(start, WORLD, self.dqn, jax.random.key(0))
        return Costs.of(self.dqn, learning.networks)

    def run(self, name: str, scale: Scale, folder: Path) -> Outcome:
        """Learn every task and seed at once; judge after the steps that the scale names."""
        tables = tables_of(scale.tasks(WORLD)[1])
        pairs = [(seed, i) for seed in scale.seeds for i in range(len(tables))]
        keys = [jax.random.fold_in(jax.random.key(seed), i) for seed, i in pairs]

        def learn(table: Array, learning: Learning, until: Array) -> Learning:
            return train(WORLD, self.dqn, table, learning, until)

        runs = in_step(learn, [tables[i] for _, i in pairs], [start(WORLD, self.dqn, key) for key in keys])
        rows: list[Row] = []
        for steps in scale.dqn_steps:
            runs.advance(max(1, steps // self.dqn.num_envs))
            check_finite(networks := runs.runs.networks)
            rows += self._judged(name, scale, networks, steps)
        return Outcome(rows, {"compile_s": runs.compile_seconds, "train_s": runs.train_seconds})

    def _judged(self, name: str, scale: Scale, networks: Trunk, steps: int) -> Iterator[Row]:
        """Yield every seed's success on every task, from the networks of all of them."""
        labelled = scale.tasks(WORLD)
        tables, seeds = tables_of(labelled[1]), len(scale.seeds)
        starts = jnp.concatenate([scale.starts(seed, len(tables)) for seed in scale.seeds])
        players = EpsilonGreedy(networks, self.dqn.epsilon)
        success = _played(WORLD, players, jnp.tile(tables, (seeds, 1, 1, 1)), starts)
        for seed, mine in zip(scale.seeds, jnp.split(success, seeds), strict=True):
            yield from rows_of(name, labelled, seed, steps, mine)


@eqx.filter_jit
def _played(
    world: World, players: EpsilonGreedy, tables: Bool[Array, "runs c k b"], keys: Key[Array, "runs episodes"]
) -> Bool[Array, "runs episodes"]:
    """Return success of every run's own policy on its own task."""

    def success(player: EpsilonGreedy, table: Bool[Array, "c k b"], key: PRNGKeyArray) -> Bool[Array, ""]:
        return play(world, player(world, None), goal_of(world, table), key).success

    return eqx.filter_vmap(lambda player, table, keys: jax.vmap(partial(success, player, table))(keys))(
        players, tables, keys
    )


_BASE = Dqn(num_envs=8, stratified=False)  # where the search began
DQN = FromScratch(Dqn())
DQN_SEARCH = {
    f"dqn-search-{name}": FromScratch(settings, search=True)
    for name, settings in {
        "base": _BASE,
        "lr-3e-4": replace(_BASE, learning_rate=3e-4),
        "raw-input": replace(_BASE, relational=False),
        "4-worlds": replace(_BASE, num_envs=4),
        "stratified": replace(_BASE, stratified=True),
        "explore-longer": replace(_BASE, epsilon_steps=200_000),
        "gamma-0.99": replace(_BASE, gamma=0.99),
        "4-worlds-stratified": Dqn(),
    }.items()
}
