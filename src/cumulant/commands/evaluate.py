"""`cumulant evaluate`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from cumulant.commands.inputs import OBJECTS, BadInput, Flag, at_least, key_of, library_in, world_of
from cumulant.commands.output import as_json, print_json, print_table, rate_and_steps

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray

    from cumulant.goals.plans import Plan
    from cumulant.goals.tasks import Task
    from cumulant.transfer.evaluation import Success
    from cumulant.transfer.library import Library
    from cumulant.worlds.protocol import World


@dataclass(frozen=True)
class Evaluate:
    """Success over classes of tasks: a library's zero-shot and few-shot, beside the oracle and random play.

    Try: cumulant evaluate --few-shot 10000
    """

    library: tuple[Path, ...] = ()  # Skill libraries, pooled (say, one a seed); by default the one that ships.
    features: str = ""  # Only if they were made with a function of your own: package.module:function.
    suite: Literal["paper", "aligned", "coverage", "plans"] = "paper"  # Thirds; bins; goals from all (m+1)^k; plans.
    bins: int | None = None  # Bins of aligned and coverage goals and of plans; by default the library's.
    episodes: int = 256  # Episodes per task.
    tasks_per_class: int = 3  # Different tasks from each class; of coverage, goals in all.
    seed: int = 0  # Of the tasks and of the starts.
    few_shot: int = 0  # Also learn each task's reward from so many labelled steps.
    paper_few_shot: Flag = False  # Few-shot the paper's way: random behaviour and least squares.
    gpi: Literal["committed", "plain"] = "committed"  # Stay with a policy, or choose anew in every state.
    objects: tuple[str, ...] | None = None  # No library: the oracle and random play alone, in a world of these objects.
    json: Flag = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Play every task."""
        from cumulant.goals.tasks import MAX_BINS
        from cumulant.transfer.evaluation import check_episodes, evaluate_references
        from cumulant.transfer.inference import check_budget

        for name in ("episodes", "tasks_per_class"):
            at_least(name.replace("_", "-"), getattr(self, name), 1)
        at_least("few-shot", self.few_shot, 0)
        check_episodes(self.episodes)
        check_budget(self.few_shot or 1)
        if self.objects is not None and self.library:
            raise BadInput("a library has its own world: give --library or --objects, not both")
        libraries = [] if self.objects else [library_in(path, self.features) for path in self.library or (None,)]
        world: World = libraries[0].world if libraries else world_of(self.objects or OBJECTS)
        key = key_of(self.seed)
        if any(library.world != world for library in libraries):
            raise BadInput("the libraries were made in different worlds")
        known = libraries[0].config.bins if libraries else 3
        bins = known if self.bins is None else self.bins
        if not 2 <= bins <= MAX_BINS:
            raise BadInput(f"--bins must lie between 2 and {MAX_BINS}, but is {bins}")
        if self.objects is not None and self.few_shot:
            raise BadInput("few-shot learning needs a library: leave out --objects or --few-shot")
        if self.suite == "plans" and self.few_shot:
            raise BadInput("a plan is no reward that could be learnt: leave out --few-shot or --suite plans")
        tasks = self._tasks(world.feature_names, bins)
        committed = self.gpi == "committed"
        results: dict[str, dict[str, Success]] = {}
        for library in libraries:
            if library.why_no_words and not self.few_shot:
                raise BadInput(f"{library.why_no_words}: give --few-shot N")
        if libraries and all(library.knows_words for library in libraries):
            runs = [library.evaluate(tasks, key, self.episodes, committed) for library in libraries]
            results["zero_shot"] = _pooled(runs)
        if libraries and self.suite == "plans":
            results["heedless"] = _pooled([_heedless(library, tasks, key, self.episodes) for library in libraries])
        if libraries and self.few_shot:
            runs = [self._few_shot(library, tasks, key, committed) for library in libraries]
            results["few_shot"] = _pooled(runs)
        results |= evaluate_references(world, tasks, key, self.episodes)
        if self.json:
            return print_json(as_json(results))
        also = ("violated",) if self.suite == "plans" else ()
        limit = f"{world.max_steps} steps" + (" a stage" if also else "")
        columns = [part for name in results for part in (name.replace("_", "-"), "steps", *also)]
        rows = [[c, *(part for name in results for part in _cells(results[name][c]))] for c in tasks]
        print_table(
            f"Success in {limit}, {self.episodes} episodes a task, {self.gpi} GPI, seed {self.seed}",
            ["class", *columns],
            rows,
        )

    def _tasks(self, names: tuple[str, ...], bins: int) -> "Mapping[str, Sequence[Task | Plan]]":
        from cumulant.goals.suites import coverage, plans, suite

        if self.suite == "plans":
            return plans(names, self.tasks_per_class, self.seed, bins)
        if self.suite == "coverage":
            return {"coverage": coverage(names, self.tasks_per_class, self.seed, bins)}
        return suite(names, self.tasks_per_class, self.seed, 3 if self.suite == "paper" else bins)

    def _few_shot(
        self, library: "Library", tasks: "Mapping[str, Sequence[Task | Plan]]", key: "PRNGKeyArray", committed: bool
    ) -> "dict[str, Success]":
        import jax

        from cumulant.transfer.evaluation import evaluate

        key_learn, key_play = jax.random.split(key)
        everything = cast("list[Task]", [task for group in tasks.values() for task in group])
        w = library.learn_tasks(everything, key_learn, self.few_shot, self.paper_few_shot)
        return evaluate(library.world, library.gpi(committed), tasks, key_play, self.episodes, w)


def _heedless(
    library: "Library", tasks: "Mapping[str, Sequence[Task | Plan]]", key: "PRNGKeyArray", episodes: int
) -> "dict[str, Success]":
    """The same plans played as if there were nothing to avoid, and judged as they are."""
    from cumulant.goals.plans import Plan, tables_of
    from cumulant.transfer.evaluation import evaluate

    ignoring = [Plan.of(task).heedless() for group in tasks.values() for task in group]
    guides = library.guides_of(tables_of(ignoring))
    return evaluate(library.world, library.gpi(), tasks, key, episodes, guides)


def _cells(success: "Success") -> tuple[str, ...]:
    violated = () if success.violated is None else (f"{success.violated:.4f}",)
    return (*rate_and_steps(success), *violated)


def _pooled(runs: "list[dict[str, Success]]") -> "dict[str, Success]":
    """Several libraries' results as one, over all their episodes."""
    from cumulant.transfer.evaluation import pool

    return {name: pool([run[name] for run in runs]) for name in runs[0]}
