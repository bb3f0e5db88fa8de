"""What figures say in numbers: as JSON holds it, and as tables for people."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cumulant.goals.suites import CLASSES
from cumulant.sweeps.statistics import Point
from cumulant_paper.experiments import Costs
from cumulant_paper.statistics import End, LargerWorld, Payback, Standing, break_even
from cumulant_paper.theory import Check


class Table(NamedTuple):
    """Words and numbers in rows."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def plain_ends(found: Mapping[str, End]) -> dict[str, object]:
    """Return where every line ends: its steps, and for each class the mean, the low and the high."""
    return {
        line: {"steps": end.steps, **{k: list(point) for k, point in end.classes.items()}}
        for line, end in found.items()
    }


def ends_table(title: str, found: Mapping[str, End]) -> Table:
    """Return a row for every line."""
    rows = [
        [line, f"{end.steps:,}", *(_with_interval(point) for point in end.classes.values())]
        for line, end in found.items()
    ]
    return Table(f"{title}, at the last step", ["", "steps", *CLASSES], rows)


def _with_interval(point: Point) -> str:
    return f"{point.mean:.3f} ±{(point.high - point.low) / 2:.3f}"


def plain_cost(free_play: int, found: Sequence[Payback]) -> dict[str, object]:
    """Return what free play costs, and what it saves in every class."""
    return {
        "free_play": free_play,
        "tasks_to_break_even": _finite(break_even(free_play, found)),
        "classes": [{name: _finite(value) for name, value in p._asdict().items()} for p in found],
    }


def _finite(value: str | float) -> str | float | None:
    """Return None for infinity, which JSON lacks."""
    return None if value == float("inf") else value


def cost_table(name: str, free_play: int, found: Sequence[Payback]) -> Table:
    """Return a row for every class."""
    even = f"paid for after {_steps(break_even(free_play, found))} tasks"
    columns = ["class", "success", "its labelled steps", "DQN's steps to the same"]
    rows = [[p.kind, f"{p.level:.3f}", _steps(p.few_shot), _steps(p.scratch)] for p in found]
    return Table(f"{name}: {free_play:,} steps of free play, {even}", columns, rows)


def _steps(value: float) -> str:
    return "never" if value == float("inf") else f"{value:,.0f}"


def plain_standings(found: Mapping[str, Mapping[str, Standing]]) -> dict[str, object]:
    """Return mean, low and high of each world and line: in each class, and by how much goals ask for."""
    return {
        world: {
            line: {
                "classes": {kind: list(point) for kind, point in standing.classes.items()},
                "goals": {str(number): list(point) for number, point in standing.goals.items()},
                "coverage": standing.coverage,
            }
            for line, standing in lines.items()
        }
        for world, lines in found.items()
    }


def standings_table(title: str, found: Mapping[str, Standing]) -> Table:
    """Return a row for every line."""
    rows = [
        [line, *(_with_interval(point) for point in standing.classes.values()), f"{standing.coverage:.3f}"]
        for line, standing in found.items()
    ]
    return Table(title, ["", *CLASSES, "all goals"], rows)


def plain_costs(found: Mapping[str, tuple[Costs | None, Mapping[str, float]]]) -> dict[str, object]:
    """Return the steps, updates, parameters and seconds of each part that learns."""
    return {name: costs._asdict() | dict(seconds) for name, (costs, seconds) in found.items() if costs}


def costs_table(found: Mapping[str, tuple[Costs | None, Mapping[str, float]]]) -> Table:
    """Return a row for every part that learns."""
    rows = [
        [name, f"{costs.env_steps:,}", f"{costs.updates:,}", f"{costs.parameters:,}"]
        + [f"{seconds[stage]:.1f}" if stage in seconds else "" for stage in ("compile_s", "train_s", "evaluate_s")]
        for name, (costs, seconds) in found.items()
        if costs
    ]
    columns = ["", "steps", "updates", "parameters", "compiling, s", "training, s", "evaluation, s"]
    return Table(
        "what was learnt, from how much play (dqn: for one task); seconds of all seeds together", columns, rows
    )


def objects_table(title: str, found: Mapping[str, LargerWorld]) -> Table:
    """Return a row for every world and preset."""
    rows = [
        [world.preset, str(world.objects), str(world.seeds), f"{world.seconds:.1f}"]
        + [f"{world.classes[kind]:.3f}" if kind in world.classes else "-" for kind in CLASSES]
        for world in found.values()
    ]
    return Table(title, ["preset", "objects", "seeds", "seconds", *CLASSES], rows)


def checks_table(title: str, checks: Sequence[Check]) -> Table:
    """Return a row for every world."""
    columns = ["world", "independent", "goals", "Lemma's error", "any first action", "GPI, exact Ψ", "GPI, trick"]
    columns += ["in order", "solvable"]
    rows = [
        [c.world, "yes" if c.independent else "no", str(c.goals)]
        + [f"{x:.3f}" for x in (c.error_on_policy, c.error_any_action, c.solved_exact, c.solved_trick)]
        + [f"{x:.3f}" for x in (c.solved_in_order, c.solvable)]
        for c in checks
    ]
    return Table(title, columns, rows)
