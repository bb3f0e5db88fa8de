"""`cumulant evaluate`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from cumulant.commands.inputs import BadInput, Flag, NoDefault, at_least, key_of, library_in
from cumulant.commands.output import as_json, doing, on_terminal, print_json, print_table, rate_and_steps
from cumulant.commands.worlds import world_asked

if TYPE_CHECKING:
    from jaxtyping import PRNGKeyArray

    from cumulant.goals.feature import Feature
    from cumulant.goals.plans import Plan
    from cumulant.goals.rewards import RewardTable
    from cumulant.goals.tasks import Task
    from cumulant.transfer.evaluation import Success
    from cumulant.transfer.library import Library
    from cumulant.worlds.protocol import World


@dataclass(frozen=True)
class Evaluate:
    """Measure success over classes of tasks.

    A library's zero-shot and few-shot success stand beside the oracle and random play. Suites are paper: its classes in
    thirds (in other worlds: one feature, two, all, either, not); aligned: the same along bins; coverage: any of the
    (m+1)^k goals; plans; and rewards, which are more than a task. Try: cumulant evaluate --few-shot 2000
    """

    # Pooled; by default the library that ships.
    library: Annotated[tuple[Path, ...], arg(metavar="PATH ...", help_behavior_hint="")] = ()
    world: NoDefault[str] = ""  # Their world, if your own: package.module:World.
    features: NoDefault[str] = ""  # Their features, if your own: package.module:name.
    # paper, aligned, coverage, plans or rewards.
    suite: Annotated[Literal["paper", "aligned", "coverage", "plans", "rewards"], arg(metavar="NAME")] = "paper"
    bins: NoDefault[int | None] = None  # Of the goals; by default the library's.
    episodes: int = 256  # Played of each task.
    tasks_per_class: int = 3  # Tasks; of coverage, in all.
    seed: int = 0  # Of the tasks and of the starts.
    few_shot: int = 0  # Learn from labelled steps, too.
    paper_few_shot: Flag = False  # As in the paper: random play, least squares.
    gpi: Literal["committed", "plain"] = "committed"  # Keep to a policy, or not.
    # Play without a library, in a world of these.
    objects: Annotated[tuple[str, ...] | None, arg(metavar="NAME ...", help_behavior_hint="")] = None
    card: Flag = False  # Keep the results on the library's card.
    json: Flag = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Play every task, and print how often it succeeds."""
        with on_terminal("loading", self.json):
            from cumulant.goals.regions import MAX_BINS
            from cumulant.transfer.cards import check_completable
            from cumulant.transfer.evaluation import evaluate_references
            from cumulant.transfer.library_folders import written_card

            self._check()
            given = self.library or (() if self.objects or self.world else (None,))
            libraries = [library_in(path, self.features, self.world) for path in given]
            if self.card:
                check_completable(self.library[0])
        world: World = libraries[0].world if libraries else world_asked(self.world, self.objects, self.features)
        key = key_of(self.seed)
        if any(library.world != world for library in libraries):
            raise BadInput("the libraries were made in different worlds")
        known = libraries[0].config.bins if libraries else 3
        bins = known if self.bins is None else self.bins
        if not 2 <= bins <= MAX_BINS:
            raise BadInput(f"--bins must lie between 2 and {MAX_BINS:,}, but is {bins}")
        tasks, learnt = self._tasks(world.feature_names, bins)
        committed = self.gpi == "committed"
        played = f"{self.episodes * sum(map(len, tasks.values())):,} episodes"
        results: dict[str, dict[str, Success]] = {}
        for library in libraries:
            if library.why_no_words and not self.few_shot:
                raise BadInput(f"{library.why_no_words}: give --few-shot N")
        if libraries and all(library.knows_words for library in libraries):
            with doing(f"playing {played} zero-shot", self.json):
                runs = [library.evaluate(tasks, key, self.episodes, committed) for library in libraries]
            results["zero_shot"] = _pooled(runs)
        if libraries and self.suite == "plans":
            with doing("playing the same with nothing to avoid", self.json):
                runs = [_heedless(library, tasks, key, self.episodes) for library in libraries]
            results["heedless"] = _pooled(runs)
        if libraries and self.few_shot:
            with doing(f"learning {len(learnt):,} rewards from {self.few_shot:,} labelled steps each", self.json):
                runs = [self._few_shot(library, learnt, tasks, key, committed) for library in libraries]
            results["few_shot"] = _pooled(runs)
        with doing(f"playing {played} with the oracle and at random", self.json):
            results |= evaluate_references(world, tasks, key, self.episodes)
        if self.card:
            self._keep(libraries[0], bins, results)
        if self.json:
            return print_json(as_json(results))
        also = ("violated",) if self.suite == "plans" else ()
        limit = f"{world.max_steps} steps" + (" a stage" if also else "")
        columns = [part for name in results for part in (name.replace("_", "-"), "steps", *also)]
        rows = [[c, *(part for name in results for part in _cells(results[name][c]))] for c in tasks]
        print_table(
            f"Success in {limit}, {self.episodes} episodes a task, {self.gpi} GPI, seed {self.seed}; "
            "steps: a failure counts as all of them",
            ["class", *columns],
            rows,
            2 + len(also),
        )
        if self.card:
            print(f"Written on the card {written_card(self.library[0])}")

    def _keep(self, library: "Library", bins: int, results: "dict[str, dict[str, Success]]") -> None:
        """Keep the results in the library's folder, and on its card."""
        from cumulant.transfer.cards import complete
        from cumulant.transfer.records import Evaluation

        asked = (self.suite, bins, self.gpi, self.seed, self.tasks_per_class, self.episodes, self.few_shot)
        complete(self.library[0], Evaluation(*asked, results), library)

    def _check(self) -> None:
        """Refuse what does not go together, before anything is loaded."""
        from cumulant.transfer.evaluation import check_episodes
        from cumulant.transfer.inference import check_budget

        for name in ("episodes", "tasks_per_class"):
            at_least(name.replace("_", "-"), getattr(self, name), 1)
        at_least("few-shot", self.few_shot, 0)
        check_episodes(self.episodes)
        check_budget(self.few_shot or 1)
        if self.card and len(self.library) != 1:
            raise BadInput("--card writes into the folder of a library: give one with --library DIR")
        if self.objects is not None and self.library:
            raise BadInput("a library has its own world: give --library or --objects, not both")
        if (self.objects is not None or (self.world and not self.library)) and self.few_shot:
            raise BadInput("few-shot learning needs a library: give --library, or leave out --few-shot")
        if self.suite == "plans" and self.few_shot:
            raise BadInput("a plan is no reward that could be learnt: leave out --few-shot or --suite plans")
        if self.suite == "rewards" and not self.few_shot:
            raise BadInput("rewards have to be learnt: give --few-shot N with --suite rewards")

    def _tasks(
        self, names: "tuple[str | Feature, ...]", bins: int
    ) -> "tuple[Mapping[str, Sequence[Task | Plan]], Sequence[Task | RewardTable]]":
        """Return the goals by class, and the rewards from which they may be learnt, all in one row."""
        from cumulant.goals.rewards import rewards
        from cumulant.goals.suites import coverage, general_suite, has_sprites, plans, suite

        number, seed = self.tasks_per_class, self.seed
        if self.suite != "coverage" and not has_sprites(names):
            if self.suite not in ("paper", "aligned"):
                raise BadInput(f"the suite {self.suite} is about sprites that have an x and a y: this world has none")
            tasks = general_suite(names, number, seed, bins)
            return tasks, [task for group in tasks.values() for task in group]
        if self.suite == "plans":
            return plans(names, number, seed, bins), ()
        if self.suite == "rewards":
            drawn = rewards(names, number, seed)
            goals = {name: [each.goal for each in group] for name, group in drawn.items()}
            return goals, [each.reward for group in drawn.values() for each in group]
        if self.suite == "coverage":
            tasks = {"coverage": coverage(names, number, seed, bins)}
        else:
            tasks = suite(names, number, seed, 3 if self.suite == "paper" else bins)
        return tasks, [task for group in tasks.values() for task in group]

    def _few_shot(
        self,
        library: "Library",
        rewards: "Sequence[Task | RewardTable]",
        tasks: "Mapping[str, Sequence[Task | Plan]]",
        key: "PRNGKeyArray",
        committed: bool,
    ) -> "dict[str, Success]":
        """Return the success at tasks of weights that were learnt from their rewards."""
        import jax

        from cumulant.transfer.evaluation import evaluate

        key_learn, key_play = jax.random.split(key)
        w = library.learn_rewards(rewards, key_learn, self.few_shot, self.paper_few_shot)
        return evaluate(library.seen, library.gpi(committed), tasks, key_play, self.episodes, w)


def _heedless(
    library: "Library", tasks: "Mapping[str, Sequence[Task | Plan]]", key: "PRNGKeyArray", episodes: int
) -> "dict[str, Success]":
    """Return the success at plans when they are played as if there were nothing to avoid, but judged as they are."""
    from cumulant.goals.plans import Plan, tables_of
    from cumulant.transfer.evaluation import evaluate

    ignoring = [Plan.of(task).heedless() for group in tasks.values() for task in group]
    guides = library.guides_of(tables_of(ignoring))
    return evaluate(library.seen, library.gpi(), tasks, key, episodes, guides)


def _cells(success: "Success") -> tuple[str, ...]:
    violated = () if success.violated is None else (f"{success.violated:.4f}",)
    return (*rate_and_steps(success), *violated)


def _pooled(runs: "list[dict[str, Success]]") -> "dict[str, Success]":
    """Pool several libraries' results over all their episodes."""
    from cumulant.transfer.evaluation import pool

    return {name: pool([run[name] for run in runs]) for name in runs[0]}
