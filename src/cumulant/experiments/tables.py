"""What figures say in numbers: as JSON holds it, and as tables for people."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cumulant.experiments.statistics import End, LargerWorld, Payback, break_even
from cumulant.experiments.theory import Check
from cumulant.goals.suites import CLASSES


class Table(NamedTuple):
    """Words and numbers in rows."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def plain_ends(found: Mapping[str, End]) -> dict[str, object]:
    """Where every line ends: its steps, and for each class the mean, the low and the high."""
    return {
        line: {"steps": end.steps, **{k: list(point) for k, point in end.classes.items()}}
        for line, end in found.items()
    }


def ends_table(title: str, found: Mapping[str, End]) -> Table:
    """A row for every line."""
    rows = [
        [line, f"{end.steps:,}", *(f"{p.mean:.3f} ±{(p.high - p.low) / 2:.3f}" for p in end.classes.values())]
        for line, end in found.items()
    ]
    return Table(f"{title}, at the last step", ["", "steps", *CLASSES], rows)


def plain_cost(free_play: int, found: Sequence[Payback]) -> dict[str, object]:
    """What free play costs, and what it saves in every class."""
    return {
        "free_play": free_play,
        "tasks_to_break_even": _finite(break_even(free_play, found)),
        "classes": [{name: _finite(value) for name, value in p._asdict().items()} for p in found],
    }


def _finite(value: str | float) -> str | float | None:
    """JSON knows no infinity."""
    return None if value == float("inf") else value


def cost_table(name: str, free_play: int, found: Sequence[Payback]) -> Table:
    """A row for every class."""
    even = f"paid for after {_steps(break_even(free_play, found))} tasks"
    columns = ["class", "success", "its labelled steps", "DQN's steps to the same"]
    rows = [[p.kind, f"{p.level:.3f}", _steps(p.few_shot), _steps(p.scratch)] for p in found]
    return Table(f"{name}: {free_play:,} steps of free play, {even}", columns, rows)


def _steps(value: float) -> str:
    return "never" if value == float("inf") else f"{value:,.0f}"


def objects_table(title: str, found: Mapping[str, LargerWorld]) -> Table:
    """A row for every world and preset."""
    rows = [
        [world.preset, str(world.objects), str(world.seeds), f"{world.seconds:.1f}"]
        + [f"{world.classes[kind]:.3f}" if kind in world.classes else "-" for kind in CLASSES]
        for world in found.values()
    ]
    return Table(title, ["preset", "objects", "seeds", "seconds", *CLASSES], rows)


def checks_table(title: str, checks: Sequence[Check]) -> Table:
    """A row for every world."""
    columns = ["world", "independent", "goals", "Lemma's error", "any first action", "GPI, exact Ψ", "GPI, trick"]
    columns += ["in order", "solvable"]
    rows = [
        [c.world, "yes" if c.independent else "no", str(c.goals)]
        + [f"{x:.3f}" for x in (c.error_on_policy, c.error_any_action, c.solved_exact, c.solved_trick)]
        + [f"{x:.3f}" for x in (c.solved_in_order, c.solvable)]
        for c in checks
    ]
    return Table(title, columns, rows)
