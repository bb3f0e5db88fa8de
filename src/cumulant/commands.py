"""The commands, each a frozen dataclass whose fields are its options. What a command does is imported when it runs."""

import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

if TYPE_CHECKING:
    from cumulant.evaluation import Success
    from cumulant.library import Library
    from cumulant.spriteworld import Spriteworld
    from cumulant.successor import FreePlay
    from cumulant.tasks import Task

_OBJECTS = ("square", "circle")
_DEMO_PHRASES = (
    "get the square to the top left",
    "square bottom right and circle top left",
    "(square left or circle right) and agent top",
)


class BadInput(Exception):
    """What the user gave cannot be used; the message is one clear line (a phrase's error adds where it points)."""


@dataclass(frozen=True)
class Demo:
    """The main job in one go, on the skill library that ships: phrases it has never seen, solved at once.

    A table in the terminal, a GIF and a contact sheet.
    """

    out: Path = Path("demo")  # Folder for demo.gif and demo.png.
    library: Path | None = None  # A skill library; by default the one that ships.
    episodes: int = 200  # Episodes per phrase behind the table.
    seed: int = 0  # Starts of the episodes.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Solve, draw, tell."""
        import jax

        from cumulant import evaluate, oracle_policy, random_policy
        from cumulant.pictures import first_interesting, save_contact_sheet, save_gif

        _at_least("episodes", self.episodes, 1)
        _usable_folder(self.out)
        library, key = _library(self.library), _seed(self.seed)
        world = library.world
        tasks = {phrase: (library.task(phrase),) for phrase in _DEMO_PHRASES}
        clauses = max(len(task.clauses) for (task,) in tasks.values())
        guides = jax.numpy.stack([_padded(library.weights(task), clauses) for (task,) in tasks.values()])
        results = {
            "zero_shot": evaluate(world, library.gpi(), tasks, key, self.episodes, guides),
            "oracle": evaluate(world, oracle_policy, tasks, key, self.episodes),
            "random": evaluate(world, random_policy, tasks, key, self.episodes),
        }
        films = first_interesting(world, library.gpi(), {p: task for p, (task,) in tasks.items()}, key, guides)
        save_gif(self.out / "demo.gif", films)
        save_contact_sheet(self.out / "demo.png", films)
        if self.json:
            files = [str(self.out / name) for name in ("demo.gif", "demo.png")]
            return _print_json(_as_json(results) | {"files": files})
        rows = [[p, str(tasks[p][0]), *(x for by in results.values() for x in _rate_and_steps(by[p]))] for p in tasks]
        columns = ["phrase", "understood as", "success", "steps", "oracle", "steps", "random play", "steps"]
        _print_table(f"Goals the library never saw, {self.episodes} random starts each", columns, rows)
        print(f"\nWatch {self.out / 'demo.gif'}, or look at {self.out / 'demo.png'}. Then try your own:")
        print('  cumulant solve "circle top left and square not left" --gif mine.gif')
        print('  cumulant explain "not (square left or circle top)"')


@dataclass(frozen=True)
class Explain:
    """Show how a phrase was understood.

    Try: cumulant explain "get the square to the centre left"
    """

    phrase: Positional[str]  # The goal, in words.
    objects: tuple[str, ...] = _OBJECTS  # The world's objects, topmost first.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Parse, and say what it means."""
        from cumulant.language import parse
        from cumulant.tasks import THIRDS

        task = parse(self.phrase, _world(self.objects).sprites)
        words = THIRDS if task.bins == 3 else _numbered_bins(task.bins)
        dnf = []
        for conditions in task.conditions():
            named = [(*name.rpartition("_")[::2], bins) for name, bins in conditions]
            dnf.append([(sprite, axis, [words[axis][b] for b in bins]) for sprite, axis, bins in named])
        if self.json:
            return _print_json({"canonical": str(task), "dnf": dnf})
        print(f"understood as: {task}")
        for i, clause in enumerate(dnf):
            print("or:" if i else "either:" if len(dnf) > 1 else "all of:")
            for sprite, axis, places in clause:
                print(f"  {sprite} {axis} in {', '.join(places)}")
            if not clause:
                print("  (nothing: any state will do)")


@dataclass(frozen=True)
class Pretrain:
    """Stage 2: play freely, with no reward, and learn every feature's policies and their successor features.

    Try: cumulant pretrain --preset cpu --out my-library
    """

    out: Path  # Folder for the library, its metrics and its checkpoints.
    preset: Literal["cpu", "fast", "paper"] = "cpu"  # For 2 cores; for one GPU; as in the paper.
    seed: int = 0  # Of everything random.
    objects: tuple[str, ...] = _OBJECTS  # The world's objects, topmost first.
    features: str = "true"  # Or entangled:SEED, or package.module:function of the observation.
    env_steps: int | None = None  # Steps of free play, in place of the preset's.
    bins: int | None = None  # Bins of each feature, in place of the preset's.
    gamma: float | None = None  # Discount, in place of the preset's.
    width: int | None = None  # Units of a layer, in place of the preset's.
    learning_rate: float | None = None  # In place of the preset's.
    full_matrix: bool = False  # Learn all of Ψ rather than fill it in by the Lemma.
    resume: bool = False  # Go on with the run in the folder.
    force: bool = False  # Overwrite the run in the folder.
    checkpoint_seconds: float = 60.0  # Time between checkpoints.
    tensorboard: bool = False  # Write TensorBoard events too (extra `tensorboard`).
    json: bool = False  # One JSON object on stdout, and nothing else.

    def config(self) -> "FreePlay":
        """The preset, with what was given in its place."""
        from cumulant.successor import PRESETS

        given = {name: getattr(self, name) for name in ("env_steps", "bins", "gamma", "width", "learning_rate")}
        changes = {name: value for name, value in given.items() if value is not None}
        try:
            return replace(PRESETS[self.preset], full_matrix=self.full_matrix, **changes)
        except ValueError as error:
            raise BadInput(str(error)) from None

    def run(self) -> None:
        """Train, unless the folder already holds a run."""
        import shutil

        from cumulant.features import named_features
        from cumulant.freeplay import Diverged, holds_a_run, pretrain
        from cumulant.progress import Reporter
        from cumulant.store import Unreadable

        config, world = self.config(), _world(self.objects)
        _seed(self.seed)
        try:
            named_features(self.features, len(world.feature_names))
        except ValueError as error:
            raise BadInput(str(error)) from None
        if holds_a_run(self.out) and not (self.resume or self.force):
            raise BadInput(f"{self.out} already holds a run: go on with --resume, or overwrite it with --force")
        if (self.out / "config.json").exists() and self.resume:
            raise BadInput(f"{self.out} holds a finished run: there is nothing to resume")
        _usable_folder(self.out)
        if self.force:
            for name in ("config.json", "weights.safetensors", "metrics.jsonl"):
                (self.out / name).unlink(missing_ok=True)
            shutil.rmtree(self.out / "checkpoints", ignore_errors=True)
        stop = _Interrupt()
        reporter = Reporter(config, self.out, self.tensorboard, quiet=self.json)
        try:
            with reporter, stop:
                library = pretrain(
                    world,
                    config,
                    self.seed,
                    self.out,
                    self.features,
                    self.resume,
                    reporter,
                    stop.requested,
                    self.checkpoint_seconds,
                )
        except (Diverged, Unreadable, ValueError, ModuleNotFoundError) as error:
            raise BadInput(str(error)) from None
        if library is None:
            print(f"stopped and saved: go on with the same command and --resume (in {self.out})", file=sys.stderr)
            raise SystemExit(130)
        if self.json:
            return _print_json({"out": str(self.out), "updates": config.updates} | reporter.summary())
        train, compiling = f"{reporter.train_seconds:.1f} s", f"{reporter.compile_seconds:.1f} s"
        print(f"{self.out}: {config.updates:,} updates in {train}, compiled in {compiling}")
        print(f'Next: cumulant solve "square top left" --library {self.out}')


class _Interrupt:
    """Ctrl-C asks for a stop after the running chunk; a second one stops at once."""

    def __init__(self) -> None:
        self._asked = False

    def requested(self) -> bool:
        return self._asked

    def __enter__(self) -> "_Interrupt":
        self._before: Any = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *exception: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _ask(self, *_: Any) -> None:
        self._asked = True
        signal.signal(signal.SIGINT, self._before)


@dataclass(frozen=True)
class Solve:
    """Act on a goal at once: a phrase, zero-shot; or a reward function, from a number of labelled steps.

    Try: cumulant solve "circle top left and square not left" --gif mine.gif
    """

    phrase: Positional[str] = ""  # The goal, in words.
    reward: str = ""  # In its place, package.module:function: an observation's reward; above 0.5 is the goal.
    budget: int = 10_000  # Labelled steps to learn the reward from.
    library: Path | None = None  # A skill library; by default the one that ships.
    gpi: Literal["committed", "plain"] = "committed"  # Stay with a policy, or choose anew in every state.
    episodes: int = 200  # Random starts.
    seed: int = 0  # Of the starts and of the labelled steps.
    gif: Path | None = None  # Write an episode here.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Find weights, act, and tell how often it worked."""
        import jax

        from cumulant.evaluation import summarise
        from cumulant.policy import play
        from cumulant.tasks import reached

        if bool(self.phrase) == bool(self.reward):
            raise BadInput("give a phrase or --reward package.module:function, one of the two")
        _at_least("episodes", self.episodes, 1)
        _at_least("budget", self.budget, 1)
        library, key = _library(self.library), _seed(self.seed)
        world = library.world
        key_learn, key_play = jax.random.split(key)
        if self.phrase:
            task = library.task(self.phrase)
            table, w = jax.numpy.asarray(task.table()), library.weights(task)
            named: dict[str, Any] = {"task": self.phrase, "canonical": str(task)}

            def goal(state: Any) -> Any:
                return reached(table, world.features(state))
        else:
            reward = _reward(self.reward, library)
            w = jax.jit(lambda key: library.learn_reward(reward, key, self.budget))(key_learn)
            named = {"task": self.reward, "canonical": str(_meaning(library, w)), "budget": self.budget}

            def goal(state: Any) -> Any:
                return reward(state) > 0.5

        gpi = library.gpi(self.gpi == "committed")
        run = jax.jit(jax.vmap(lambda key: play(world, gpi(world, w), goal, key)))
        episodes = run(jax.random.split(key_play, self.episodes))
        result = summarise(*(jax.device_get(leaf)[None] for leaf in (episodes.success, episodes.steps)))
        if self.gif:
            from cumulant.pictures import film_of, save_gif

            _usable_folder(self.gif.parent)
            save_gif(self.gif, [film_of(world, named["task"], episodes)])
        report = named | {name: getattr(result, name) for name in ("success", "ci95", "mean_steps", "episodes")}
        if self.json:
            return _print_json(report)
        print(f"understood as: {report['canonical']}")
        print(f"success {_rate_and_steps(result)[0]} over {result.episodes} starts, {_rate_and_steps(result)[1]} steps")
        if self.gif:
            print(f"watch {self.gif}")


@dataclass(frozen=True)
class Evaluate:
    """Success over classes of tasks: a library's zero-shot and few-shot, beside the oracle and random play.

    Try: cumulant evaluate --few-shot 10000
    """

    library: tuple[Path, ...] = ()  # Skill libraries, pooled (say, one a seed); by default the one that ships.
    suite: Literal["paper", "aligned", "coverage"] = "paper"  # Thirds; bins; goals from all (m+1)^k.
    bins: int | None = None  # Bins of aligned and coverage goals; by default the library's.
    episodes: int = 256  # Episodes per task.
    tasks_per_class: int = 3  # Different tasks from each class; of coverage, goals in all.
    seed: int = 0  # Of the tasks and of the starts.
    few_shot: int = 0  # Also learn each task's reward from so many labelled steps.
    paper_few_shot: bool = False  # Few-shot the paper's way: random behaviour and least squares.
    gpi: Literal["committed", "plain"] = "committed"  # Stay with a policy, or choose anew in every state.
    objects: tuple[str, ...] | None = None  # No library: the oracle and random play alone, in a world of these objects.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Play every task."""
        from cumulant import evaluate, oracle_policy, random_policy

        for name in ("episodes", "tasks_per_class"):
            _at_least(name.replace("_", "-"), getattr(self, name), 1)
        _at_least("few-shot", self.few_shot, 0)
        if self.objects is not None and self.library:
            raise BadInput("a library has its own world: give --library or --objects, not both")
        libraries = [] if self.objects else [_library(path) for path in self.library or (None,)]
        world, key = libraries[0].world if libraries else _world(self.objects or _OBJECTS), _seed(self.seed)
        if any(library.world != world for library in libraries):
            raise BadInput("the libraries were made in different worlds")
        bins = self.bins or (libraries[0].config.bins if libraries else 3)
        _at_least("bins", bins, 2)
        tasks = self._tasks(world.feature_names, bins)
        committed = self.gpi == "committed"
        results: dict[str, dict[str, Success]] = {}
        if libraries:
            runs = [library.evaluate(tasks, key, self.episodes, committed) for library in libraries]
            results["zero_shot"] = _pooled(runs)
        if libraries and self.few_shot:
            runs = [self._few_shot(library, tasks, key, committed) for library in libraries]
            results["few_shot"] = _pooled(runs)
        try:
            results["oracle"] = evaluate(world, oracle_policy, tasks, key, self.episodes)
        except ValueError as error:
            raise BadInput(str(error)) from None
        results["random"] = evaluate(world, random_policy, tasks, key, self.episodes)
        if self.json:
            return _print_json(_as_json(results))
        columns = [part for name in results for part in (name.replace("_", "-"), "steps")]
        rows = [[c, *(part for name in results for part in _rate_and_steps(results[name][c]))] for c in tasks]
        _print_table(
            f"Success in {world.max_steps} steps, {self.episodes} episodes a task, {self.gpi} GPI, seed {self.seed}",
            ["class", *columns],
            rows,
        )

    def _tasks(self, names: tuple[str, ...], bins: int) -> "dict[str, tuple[Task, ...]]":
        from cumulant.suites import coverage, suite

        if self.suite == "coverage":
            return {"coverage": coverage(names, self.tasks_per_class, self.seed, bins)}
        return suite(names, self.tasks_per_class, self.seed, 3 if self.suite == "paper" else bins)

    def _few_shot(self, library: "Library", tasks: "Mapping[str, Sequence[Task]]", key: Any, committed: bool) -> Any:
        import jax

        from cumulant.evaluation import evaluate, tables_of
        from cumulant.tasks import reached

        tables = tables_of([task for group in tasks.values() for task in group])
        key_learn, key_play = jax.random.split(key)

        def learn(table: Any, key: Any) -> Any:
            def reward(state: Any) -> Any:
                return reached(table, library.world.features(state)).astype(float)

            return library.learn_reward(reward, key, self.few_shot, self.paper_few_shot)

        w = jax.jit(jax.vmap(learn))(tables, jax.random.split(key_learn, len(tables)))
        return evaluate(library.world, library.gpi(committed), tasks, key_play, self.episodes, w)


@dataclass(frozen=True)
class Inspect:
    """Audit the off-diagonal trick: what each policy really does to every feature, against what the Lemma assumes."""

    library: Path | None = None  # A skill library; by default the one that ships.
    out: Path = Path("inspect")  # Folder for audit.png and audit.json.
    starts: int = 200  # Random starts from which every policy is played.
    seed: int = 0  # Of the starts.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Play every policy, compare, draw."""
        import numpy as np

        from cumulant.audit import audit
        from cumulant.figures import draw_audit
        from cumulant.files import write_whole

        _at_least("starts", self.starts, 1)
        _usable_folder(self.out)
        library = _library(self.library)
        result, names = audit(library, _seed(self.seed), self.starts), library.world.feature_names
        same = np.eye(len(names), dtype=bool)
        by_feature = result.lemma_error.mean(axis=(1, 3))  # [policy's feature, cumulant's feature]
        learnt = np.nanmean(result.learnt_error.mean(axis=1)[same])
        report = {
            "features": list(names),
            "lemma_error": by_feature.tolist(),
            "moved": result.moved.tolist(),
            "learnt_error": float(learnt),
            "violations": [
                {"policies_of": names[i], "move": names[j], "by": float(result.moved[i, j])}
                for i, j in np.argwhere((result.moved > 0.05) & ~same)
            ],
        }
        entries = {name: getattr(result, name).tolist() for name in ("true", "lemma_error")}
        write_whole(self.out / "audit.json", json.dumps(report | {"entries": entries}).encode())
        draw_audit(self.out / "audit.png", result, names)
        if self.json:
            return _print_json(report)
        rows = [[name, *(f"{value:.3f}" for value in by_feature[i])] for i, name in enumerate(names)]
        _print_table(
            "The Lemma's mean error, (1-γ)-scaled: policies of a row, cumulants of a column", ["", *names], rows
        )
        print(f"Learnt Ψ on its own feature: mean error {learnt:.3f} against Ψ as played.")
        for v in report["violations"]:
            print(f"Not independent: policies of {v['policies_of']} move {v['move']} by {v['by']:.2f} on average.")
        print(f"Heat maps in {self.out / 'audit.png'}, every entry in {self.out / 'audit.json'}.")


@dataclass(frozen=True)
class Reproduce:
    """The paper's results from scratch, data beside the picture.

    theorem: the Lemma and the Theorem, exactly, in small tabular worlds.
    """

    what: Positional[Literal["theorem"]]  # Which result.
    out: Path = Path("reproduce")  # Folder for the data and the picture.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Check every world, print the table, draw it."""
        from cumulant import theory
        from cumulant.figures import draw_theorem
        from cumulant.files import write_whole

        _usable_folder(self.out)
        gamma = 0.9
        checks = [theory.check(world, gamma) for world in theory.WORLDS]
        report = {"gamma": gamma, "worlds": [check._asdict() for check in checks]}
        write_whole(self.out / "theorem.json", json.dumps(report, indent=2).encode())
        draw_theorem(self.out / "theorem.png", checks, (theory.WORLDS[0], theory.WORLDS[3]), gamma)
        if self.json:
            return _print_json(report)
        columns = ["world", "independent", "goals", "Lemma's error", "any first action", "GPI, exact Ψ", "GPI, trick"]
        rows = [
            [c.world, "yes" if c.independent else "no", str(c.goals)]
            + [f"{x:.3f}" for x in (c.error_on_policy, c.error_any_action, c.solved_exact, c.solved_trick)]
            for c in checks
        ]
        _print_table(
            "The Lemma and the Theorem, exactly (errors scaled by 1-γ; success from every state)", columns, rows
        )
        print(f"Drawn in {self.out / 'theorem.png'}, data in {self.out / 'theorem.json'}.")


@dataclass(frozen=True)
class Bench:
    """Speed, beside the peer in the same run and beside the hardware's limit.

    env and render: the world against the original Spriteworld. parse: the worst phrase. pretrain: free play, and a wide
    update against the peak of matrix products. gpi: actions from Ψ, all_policies against the paper's network.
    """

    what: Positional[Literal["env", "render", "parse", "pretrain", "gpi"]]  # What to measure.
    objects: tuple[str, ...] = _OBJECTS  # The world's objects, topmost first.
    batch: int | None = None  # Worlds, frames or transitions at once; by default what suits the device.
    size: int = 64  # Pixels along a frame's side.
    no_peer: bool = False  # Leave out the original, which the extra `peers` installs.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Measure, and tell how far the limit is."""
        import jax

        from cumulant import bench

        _at_least("batch", 1 if self.batch is None else self.batch, 1)
        _at_least("size", self.size, 1)
        world, on_cpu = _world(self.objects), jax.default_backend() == "cpu"
        measure: dict[str, Callable[[], dict[str, Any]]] = {
            "env": lambda: bench.bench_env(world, self.batch or (4096 if on_cpu else 2**22), 200, not self.no_peer),
            "render": lambda: bench.bench_render(
                world, self.batch or (256 if on_cpu else 2**16), self.size, not self.no_peer
            ),
            "parse": lambda: bench.bench_parse(world),
            "pretrain": lambda: bench.bench_pretrain(world, self.batch or (256 if on_cpu else 2**14)),
            "gpi": lambda: bench.bench_gpi(world),
        }
        try:
            report = measure[self.what]()
        except ModuleNotFoundError as error:
            raise BadInput(str(error)) from None
        if self.json:
            return _print_json(report)
        for name, value in report.items():
            print(f"{name:>24}  {_readable(value)}")


def _readable(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)


def _world(objects: tuple[str, ...]) -> "Spriteworld":
    from cumulant.spriteworld import Spriteworld

    try:
        return Spriteworld(objects)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _library(path: Path | None) -> "Library":
    from cumulant.library import Library
    from cumulant.store import Unreadable

    try:
        return Library.load(path)
    except (Unreadable, ValueError) as error:
        raise BadInput(str(error)) from None


def _reward(name: str, library: "Library") -> Callable[[Any], Any]:
    """The user's reward as a function of the state, tried on random states before it is used."""
    import jax
    import numpy as np

    from cumulant.features import load_function

    try:
        function = load_function(name, "reward")
    except ValueError as error:
        raise BadInput(str(error)) from None
    world = library.world
    states = jax.vmap(world.reset)(jax.random.split(jax.random.key(0), 64))
    try:
        values = np.asarray(jax.vmap(lambda state: function(world.observe(state)))(states))
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BadInput(f"reward {name!r} fails on an observation, or is not written in JAX: {first}") from None
    if values.shape != (64,):
        raise BadInput(f"reward {name!r} must return one number, but returns the shape {values.shape[1:]}")
    if not np.isfinite(values).all():
        raise BadInput(f"reward {name!r} returns NaN or an infinity")
    return lambda state: function(world.observe(state)).astype(float)


def _meaning(library: "Library", w: Any) -> "Task":
    """The conjunction of bins that learnt weights favour most, for people to read."""
    import numpy as np

    from cumulant.tasks import Task

    rows = np.asarray(w)[0]
    liked = {
        name: np.flatnonzero(row >= 0.5 * row.max()).tolist()
        for name, row in zip(library.world.feature_names, rows, strict=True)
        if row.max() > 0.1 * max(rows.max(), 1e-9)
    }
    return Task.where(library.world.feature_names, liked, library.config.bins)


def _seed(seed: int) -> Any:
    import jax

    if not 0 <= seed < 2**32:
        raise BadInput(f"a seed lies between 0 and {2**32 - 1}, but is {seed}")
    return jax.random.key(seed)


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise BadInput(f"--{name} must be at least {least}, but is {value}")


def _usable_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot write to {path}: {error.strerror}") from None


def _padded(w: Any, clauses: int) -> Any:
    import jax.numpy as jnp

    return jnp.concatenate([w, -jnp.ones((clauses - len(w), *w.shape[1:]))])


def _numbered_bins(bins: int) -> dict[str, tuple[str, ...]]:
    names = tuple(f"{b + 1}/{bins}" for b in range(bins))
    return {"x": names, "y": names}


def _pooled(runs: "list[dict[str, Success]]") -> "dict[str, Success]":
    """Several libraries' results as one, over all their episodes."""
    from cumulant.evaluation import pool

    return {name: pool([run[name] for run in runs]) for name in runs[0]}


def _as_json(results: "dict[str, dict[str, Success]]") -> dict[str, Any]:
    return {name: {c: success._asdict() for c, success in by_class.items()} for name, by_class in results.items()}


def _rate_and_steps(success: "Success") -> tuple[str, str]:
    low, high = success.ci95
    return f"{success.success:.3f} [{low:.3f}, {high:.3f}]", f"{success.mean_steps or float('nan'):.1f}"


def _print_json(report: dict[str, Any]) -> None:
    print(json.dumps(report))


def _print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    console = Console() if sys.stdout.isatty() else Console(width=160)
    console.print(table)
