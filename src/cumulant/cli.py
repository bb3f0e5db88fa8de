"""The command line. Each command is a frozen dataclass; what it does is imported only when it runs."""

import contextlib
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional, subcommand

if TYPE_CHECKING:
    from cumulant.evaluation import Success
    from cumulant.spriteworld import Spriteworld

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
    """A few phrases solved: a table in the terminal, a GIF and a contact sheet."""

    out: Path = Path("demo")  # Folder for demo.gif and demo.png.
    episodes: int = 200  # Episodes per phrase behind the table.
    seed: int = 0  # Starts of the episodes.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Solve, draw, tell."""
        from cumulant import evaluate, oracle_policy, parse, random_policy
        from cumulant.pictures import first_interesting, save_contact_sheet, save_gif

        _at_least("episodes", self.episodes, 1)
        _usable_folder(self.out)
        world, key = _world(_OBJECTS), _seed(self.seed)
        tasks = {phrase: (parse(phrase, world.sprites),) for phrase in _DEMO_PHRASES}
        solved = evaluate(world, oracle_policy, tasks, key, self.episodes)
        chance = evaluate(world, random_policy, tasks, key, self.episodes)
        films = first_interesting(world, oracle_policy, {p: task for p, (task,) in tasks.items()}, key)
        save_gif(self.out / "demo.gif", films)
        save_contact_sheet(self.out / "demo.png", films)
        if self.json:
            report = {p: {"oracle": _fields(solved[p]), "random": _fields(chance[p])} for p in tasks}
            return _print_json({"tasks": report, "files": [str(self.out / name) for name in ("demo.gif", "demo.png")]})
        rows = [[p, str(tasks[p][0]), _rate(solved[p]), _steps(solved[p]), _rate(chance[p])] for p in tasks]
        _print_table(
            f"Solved by the oracle, {self.episodes} random starts each",
            ["phrase", "understood as", "success", "steps", "random play"],
            rows,
        )
        print(f"\nWatch {self.out / 'demo.gif'}, or look at {self.out / 'demo.png'}.")
        print('Next: cumulant explain "not (square left or circle top)"    cumulant evaluate')


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
class Evaluate:
    """Success over the paper's seven classes of tasks: the oracle, and random play."""

    suite: Literal["paper", "aligned"] = "paper"  # Regions in thirds, or aligned with the bins.
    bins: int = 9  # Bins of the aligned regions.
    objects: tuple[str, ...] = _OBJECTS  # The world's objects, topmost first.
    episodes: int = 256  # Episodes per task.
    tasks_per_class: int = 3  # Different tasks drawn from each class.
    seed: int = 0  # Of the tasks and of the starts.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Play every task."""
        from cumulant import evaluate, oracle_policy, random_policy, suite

        _at_least("episodes", self.episodes, 1)
        _at_least("tasks-per-class", self.tasks_per_class, 1)
        _at_least("bins", self.bins, 2)
        world, key = _world(self.objects), _seed(self.seed)
        bins = 3 if self.suite == "paper" else self.bins
        tasks = suite(world.feature_names, self.tasks_per_class, self.seed, bins)
        try:
            results = {
                name: evaluate(world, policy, tasks, key, self.episodes)
                for name, policy in (("oracle", oracle_policy), ("random", random_policy))
            }
        except ValueError as error:
            raise BadInput(str(error)) from None
        if self.json:
            return _print_json({n: {c: _fields(s) for c, s in by_class.items()} for n, by_class in results.items()})
        oracle, chance = results["oracle"], results["random"]
        rows = [[c, _rate(oracle[c]), _steps(oracle[c]), _rate(chance[c]), str(oracle[c].tasks)] for c in tasks]
        _print_table(
            f"Success within {world.max_steps} steps, {self.episodes} episodes a task, seed {self.seed}",
            ["class", "oracle", "steps", "random play", "tasks"],
            rows,
        )


@dataclass(frozen=True)
class Bench:
    """Speed: the world and its frames beside the original Spriteworld and the memory's limit; phrases by the worst."""

    what: Positional[Literal["env", "render", "parse"]]  # Steps that observe positions; anti-aliased frames; phrases.
    objects: tuple[str, ...] = _OBJECTS  # The world's objects, topmost first.
    batch: int | None = None  # Worlds or frames at once; by default what suits the device.
    size: int = 64  # Pixels along a frame's side.
    no_peer: bool = False  # Leave out the original, which the extra `peers` installs.
    json: bool = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Measure, and tell how far the limit is."""
        import jax

        from cumulant.bench import bench_env, bench_parse, bench_render

        _at_least("batch", 1 if self.batch is None else self.batch, 1)
        _at_least("size", self.size, 1)
        world, on_cpu = _world(self.objects), jax.default_backend() == "cpu"
        try:
            if self.what == "env":
                report = bench_env(world, self.batch or (4096 if on_cpu else 2**22), 200, not self.no_peer)
            elif self.what == "render":
                report = bench_render(world, self.batch or (256 if on_cpu else 2**16), self.size, not self.no_peer)
            else:
                report = bench_parse(world)
        except ModuleNotFoundError as error:
            raise BadInput(str(error)) from None
        if self.json:
            return _print_json(report)
        print(f"ours      {report['ours']:>14,.0f} {report['unit']}")
        if report["peer"]:
            print(f"original  {report['peer']:>14,.0f} {report['unit']}, one process: ours is {report['ratio']:,.0f}×")
        if "memory_limit" in report:
            print(f"limit     {report['memory_limit']:>14,.0f} {report['unit']} by memory bandwidth", end=" ")
            print(f"({report['copy_bytes_per_s'] / 1e9:,.0f} GB/s measured, {report['bytes_each']:,} bytes each)")
            print(f"ours uses {report['share_of_limit']:.1%} of it on {report['device']}", end="; ")
            print(f"compiled in {report['compile_s']:.1f} s")


Command = (
    Annotated[Demo, subcommand("demo")]
    | Annotated[Explain, subcommand("explain")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Bench, subcommand("bench")]
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0, or 2 for bad input, said in one line on stderr."""
    try:
        _read_command(argv).run()
    except BadInput as error:
        print(f"cumulant: {error}", file=sys.stderr)
        return 2
    except ValueError as error:
        pointed = getattr(error, "pointed", None)  # a LanguageError, told without importing its module
        if pointed is None:
            raise
        print(f"cumulant: {pointed}", file=sys.stderr)
        return 2
    return 0


def _read_command(argv: Sequence[str] | None) -> Any:
    """Parse the arguments; what tyro says in a box over several lines, we say in one."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                Command, prog="cumulant", description=_DESCRIPTION, args=argv, config=(tyro.conf.FlagCreatePairsOff,)
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise BadInput(f"{_first_block(said.getvalue())} (see cumulant --help)") from None


def _first_block(box: str) -> str:
    """What tyro's box says above its first rule, in one line. Without Unicode, the title too stands above a rule."""
    blocks = [""]
    for line in box.splitlines():
        text = line.strip("│|+ ")
        if line.startswith(("╭", "╰")) or not text:
            continue
        if set(text) <= set("─-"):
            blocks.append("")
        else:
            blocks[-1] += f" {text}"
    return blocks[0 if "╭" in box else min(1, len(blocks) - 1)].strip()


_DESCRIPTION = "Play freely once, with no reward; then act on any goal at once, in words or as a reward."


def _world(objects: tuple[str, ...]) -> "Spriteworld":
    from cumulant.spriteworld import Spriteworld

    try:
        return Spriteworld(objects)
    except ValueError as error:
        raise BadInput(str(error)) from None


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


def _numbered_bins(bins: int) -> dict[str, tuple[str, ...]]:
    names = tuple(f"{b + 1}/{bins}" for b in range(bins))
    return {"x": names, "y": names}


def _fields(success: "Success") -> dict[str, Any]:
    return success._asdict()


def _rate(success: "Success") -> str:
    return f"{success.success:.3f} [{success.ci95[0]:.3f}, {success.ci95[1]:.3f}]"


def _steps(success: "Success") -> str:
    return "–" if success.mean_steps is None else f"{success.mean_steps:.1f}"


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
    console = Console()
    console.print(table) if console.is_terminal else Console(width=160).print(table)


if __name__ == "__main__":
    sys.exit(main())
