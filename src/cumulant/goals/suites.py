"""Seeded sampling of tasks: the paper's seven classes, with regions in thirds or in any number of bins."""

from math import comb
from numbers import Integral

import numpy as np

from cumulant.bounds import OutOfBounds
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
    _check_number(tasks_per_class)
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
    _check_number(number)
    choices = np.random.default_rng(seed).integers(bins + 1, size=(number, len(coordinates)))
    return tuple(
        Task.where(coordinates, {c: [int(b)] for c, b in zip(coordinates, row, strict=True) if b < bins}, bins)
        for row in choices
    )


def _check_number(tasks: int) -> None:
    if not isinstance(tasks, Integral) or not 1 <= tasks <= MAX_TASKS:
        raise OutOfBounds(f"the tasks of a class are 1 to {MAX_TASKS:,}, but got {tasks}")
