"""Seeded sampling of tasks, the paper's seven classes with regions in thirds or in any number of bins; and of plans."""

from math import comb
from numbers import Integral

import numpy as np

from cumulant.bounds import OutOfBounds
from cumulant.goals.plans import Contradiction, Plan, Stage
from cumulant.goals.tasks import Task, checked_bins

MAX_TASKS = 1_000_000  # of a class, or goals in all
CLASSES = (
    "agent_easy",
    "agent_hard",
    "object_easy",
    "object_hard",
    "disjunction_easy",
    "disjunction_hard",
    "conjunction",
)

PLANS = ("then", "keep", "without", "without_agent")
_STAGES = (2, 4)  # of a plan, at least and at most


def count(name: str, objects: int, bins: int = 3) -> int:
    """How many different tasks a class holds in a world with so many objects."""
    region = 2 * bins if name.endswith("easy") else bins**2
    return {
        "agent": region,
        "object": objects * region,
        "disjunction": objects * region**2,
        "conjunction": comb(objects, 2) * region**2,
    }[name.partition("_")[0]]


def sample(name: str, coordinates: tuple[str, ...], rng: np.random.Generator, bins: int = 3) -> Task:
    """One task of a class. The first two coordinates are the agent's, each later pair an object's; never impossible."""
    bins = checked_bins(bins)
    sprites = [c.rpartition("_")[0] for c in coordinates[::2]]
    if not count(name, len(sprites) - 1, bins):
        raise ValueError(f"a task of class {name} needs more objects than {', '.join(sprites[1:])}")

    def region(sprite: str) -> Task:
        axes = [rng.choice(["x", "y"])] if name.endswith("easy") else ["x", "y"]
        return Task.where(coordinates, {f"{sprite}_{axis}": [int(rng.integers(bins))] for axis in axes}, bins)

    objects = rng.permutation(sprites[1:])
    match name.partition("_")[0]:
        case "agent":
            return region(sprites[0])
        case "object":
            return region(objects[0])
        case "disjunction":
            return region(sprites[0]) | region(objects[0])
        case _:
            return region(objects[0]) & region(objects[1])


def suite(
    coordinates: tuple[str, ...], tasks_per_class: int = 3, seed: int = 0, bins: int = 3
) -> dict[str, tuple[Task, ...]]:
    """Different tasks of every class, at most as many as the class holds; a class that holds none is left out.

    `coordinates` are a world's feature names, the agent's two first, then each object's. The regions are thirds, or any
    number of bins. Returns the classes' names with their tasks; the same seed gives the same tasks.

    >>> import cumulant
    >>> tasks = cumulant.suite(cumulant.Spriteworld().feature_names, tasks_per_class=1, seed=0)
    >>> print(len(tasks), tasks["conjunction"][0])
    7 square top left and circle middle centre
    """
    bins = checked_bins(bins)
    check_number(tasks_per_class)
    tasks = {}
    for index, name in enumerate(CLASSES):
        rng = np.random.default_rng([seed, index])
        drawn: dict[Task, None] = {}
        while len(drawn) < min(tasks_per_class, count(name, len(coordinates) // 2 - 1, bins)):
            drawn[sample(name, coordinates, rng, bins)] = None
        if drawn:
            tasks[name] = tuple(drawn)
    return tasks


def coverage(coordinates: tuple[str, ...], number: int, seed: int = 0, bins: int = 3) -> tuple[Task, ...]:
    """Goals drawn from all (m + 1)^k of the theorem: for each coordinate one bin, or anything."""
    bins = checked_bins(bins)
    check_number(number)
    choices = np.random.default_rng(seed).integers(bins + 1, size=(number, len(coordinates)))
    return tuple(
        Task.where(coordinates, {c: [int(b)] for c, b in zip(coordinates, row, strict=True) if b < bins}, bins)
        for row in choices
    )


def plans(coordinates: tuple[str, ...], number: int, seed: int = 0, bins: int = 3) -> dict[str, tuple[Plan, ...]]:
    """Plans of 2 to 4 stages, `number` of each class; each stage is a task of the paper's classes.

    `then` is nothing but stages in order. In `keep`, where objects are placed they may have to stay. In `without`, each
    stage has something to avoid that a player can always avoid: a place for an object that is not asked for, or one
    cell for what is. In `without_agent` the agent has to stay out of one cell while it places objects. What is left of
    the arena is connected, so it can walk and carry around the cell; a stage is out of reach only from where its object
    lies in the cell, deeper than the agent can grip it from outside.
    """
    bins = checked_bins(bins)
    check_number(number)
    drawn: dict[str, tuple[Plan, ...]] = {}
    for index, name in enumerate(PLANS):
        rng = np.random.default_rng([seed, len(CLASSES) + index])
        group: dict[Plan, None] = {}
        while len(group) < number:
            plan = _plan(name, coordinates, rng, bins)
            if plan is not None:
                group[plan] = None
        drawn[name] = tuple(group)
    return drawn


def _plan(name: str, coordinates: tuple[str, ...], rng: np.random.Generator, bins: int) -> Plan | None:
    """One plan of a class; None if what was drawn contradicts itself."""
    objects = len(coordinates) // 2 - 1
    classes = [c for c in CLASSES if count(c, objects, bins) and (name != "without_agent" or "object" in c)]
    tasks = [
        sample(rng.choice(classes), coordinates, rng, bins) for _ in range(rng.integers(_STAGES[0], _STAGES[1] + 1))
    ]
    if name == "keep":
        stages = [Stage(task, keep=None if _agents(task) or rng.random() < 1 / 3 else task) for task in tasks]
        if not any(stage.keep for stage in stages[:-1]):
            return None
    elif name.startswith("without"):
        stages = [Stage(task, avoid=_avoidable(name, task, rng)) for task in tasks]
    else:
        stages = [Stage(task) for task in tasks]
    try:
        return Plan(tuple(stages))
    except Contradiction:
        return None


def _agents(task: Task) -> bool:
    """Whether a task is about the agent, which cannot stay anywhere while it places objects."""
    return any(coordinate in task.coordinates[:2] for clause in task.conditions() for coordinate, _ in clause)


def _avoidable(name: str, task: Task, rng: np.random.Generator) -> Task:
    """Something to avoid on the way to a task."""
    sprites = [c.rpartition("_")[0] for c in task.coordinates[::2]]
    asked = {coordinate.rpartition("_")[0] for clause in task.conditions() for coordinate, _ in clause}
    if name == "without_agent":
        sprite, axes = sprites[0], ["x", "y"]  # a whole third would part what is left, or hide objects for good
    else:
        agent_too = asked == {sprites[0]}  # where objects are to be placed, the agent has to go wherever they lie
        sprite = rng.choice(sprites if agent_too else sprites[1:])
        axes = ["x", "y"] if sprite in asked or rng.random() < 1 / 2 else [rng.choice(["x", "y"])]
    return Task.where(
        task.coordinates, {f"{sprite}_{axis}": [int(rng.integers(task.bins))] for axis in axes}, task.bins
    )


def check_number(tasks: int) -> None:
    """Refuse what is no number of tasks, before any is drawn."""
    if not isinstance(tasks, Integral) or not 1 <= tasks <= MAX_TASKS:
        raise OutOfBounds(f"the tasks of a class are 1 to {MAX_TASKS:,}, but got {tasks}")
