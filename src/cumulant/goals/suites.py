"""Seeded sampling of tasks, the paper's seven classes with regions in thirds or in any number of bins; and of plans."""

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from math import comb
from numbers import Integral
from operator import and_, or_

import numpy as np

from cumulant.config import OutOfBounds
from cumulant.goals.feature import Feature, described, names_of
from cumulant.goals.plans import Contradiction, Plan, Stage
from cumulant.goals.regions import checked_bins, common
from cumulant.goals.tasks import Task, on_one_grid

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
Coordinates = tuple[str | Feature, ...]  # a world's feature names
_DRAWS = 20  # tries for each task that is asked for: where there are few, they come again
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


def sample(name: str, coordinates: Coordinates, rng: np.random.Generator, bins: int = 3) -> Task:
    """One task of a class. The first two coordinates are the agent's, each later pair an object's; never impossible."""
    bins = checked_bins(bins)
    sprites = [feature.of for feature in described(coordinates)[::2]]
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


def class_of(task: Task, bins: int = 3) -> str:
    """The class whose tasks `sample` draws this one from, with so many bins; empty if there is none.

    >>> import cumulant
    >>> class_of(cumulant.parse("square top left")), class_of(cumulant.parse("square top and circle left"))
    ('object_hard', '')
    """
    task = task.coarsest()
    conditions = task.conditions()
    if task.bins != bins or not has_sprites(task.coordinates):
        return ""
    if {len(allowed) for clause in conditions for _, allowed in clause} != {1}:
        return ""  # a class asks for a single region each
    agent = task.features[0].of
    clauses = [Counter(name.rpartition("_")[0] for name, _ in clause) for clause in conditions]
    sizes = {axes for clause in clauses for axes in clause.values()}
    kind = {1: "easy", 2: "hard"}[sizes.pop()] if len(sizes) == 1 else ""
    match [list(clause) for clause in clauses]:
        case [[sprite]]:
            return f"agent_{kind}" if sprite == agent else f"object_{kind}"
        case [[one], [other]] if kind and (one == agent) != (other == agent):
            return f"disjunction_{kind}"
        case [[one, other]] if kind == "hard" and agent not in (one, other):
            return "conjunction"
    return ""


def suite(
    coordinates: Coordinates, tasks_per_class: int = 3, seed: int = 0, bins: int = 3
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


def has_sprites(coordinates: Coordinates) -> bool:
    """Whether the paper's classes make sense: an agent and objects, of each an x and a y and nothing else."""
    features = described(coordinates)
    things = [feature.of for feature in features[::2]]
    pairs = [(feature.of, feature.name) for feature in features]
    return len(things) > 1 and pairs == [(thing, axis) for thing in things for axis in "xy"]


def general_suite(
    coordinates: Coordinates, tasks_per_class: int = 3, seed: int = 0, bins: int = 3
) -> dict[str, tuple[Task, ...]]:
    """Tasks that any world has: about one feature, two, or all of them; either of two; and not where it might be.

    A feature with words of its own has as many regions, one of few values as many as these, any other as many as there
    are bins.

    >>> from cumulant.worlds.room import Room
    >>> for name, (task,) in general_suite(Room().feature_names, tasks_per_class=1).items():
    ...     print(f"{name}: {task}")
    one: volume soft
    two: lamp on and volume quiet
    either: temperature mild or blind shut
    not: blind not open
    all: temperature warm and lamp on and blind shut and volume soft
    """
    check_number(tasks_per_class)
    features = described(coordinates)
    tasks: dict[str, tuple[Task, ...]] = {}
    for index, (name, number) in enumerate({"one": 1, "two": 2, "either": 2, "not": 1, "all": len(features)}.items()):
        rng = np.random.default_rng([seed, index])
        drawn: dict[Task, None] = {}
        for _ in range(_DRAWS * tasks_per_class if number <= len(features) else 0):
            chosen = rng.choice(len(features), number, replace=False)
            conditions = on_one_grid([_region(coordinates, features[i], rng, bins) for i in chosen])
            task = reduce(or_ if name == "either" else and_, conditions)
            drawn[~task if name == "not" else task] = None
            if len(drawn) == tasks_per_class:
                break
        if drawn:
            tasks[name] = tuple(drawn)
    return tasks


def _region(coordinates: Coordinates, feature: Feature, rng: np.random.Generator, bins: int) -> Task:
    """A feature in one of its regions."""
    regions = _regions(feature, bins)
    return Task.where(coordinates, {feature.full_name: [int(rng.integers(regions))]}, regions)


def _regions(feature: Feature, bins: int) -> int:
    """Its words', or its values' where they are fewer than the bins: finer than these, nothing can be promised."""
    return len(feature.words) or min(feature.values or bins, bins)


def coverage(coordinates: Coordinates, number: int, seed: int = 0, bins: int = 3) -> tuple[Task, ...]:
    """Goals drawn from all (m + 1)^k of the theorem: for each coordinate one bin, or anything.

    A feature with words or few values of its own has as many regions: a lamp is on or off.
    """
    bins = checked_bins(bins)
    check_number(number)
    features = described(coordinates)
    regions = [_regions(feature, bins) for feature in features]
    most = bins if set(regions) == {bins} else np.array(regions)
    choices = np.random.default_rng(seed).integers(most + 1, size=(number, len(features)))
    return tuple(_cell(coordinates, regions, row.tolist(), bins) for row in choices)


def _cell(coordinates: Coordinates, regions: Sequence[int], choice: Sequence[int], bins: int) -> Task:
    """Each feature in the chosen one of its regions; anywhere, if it is beyond the last."""
    names = names_of(coordinates)
    chosen = [(names[i], b, regions[i]) for i, b in enumerate(choice) if b < regions[i]]
    grid = common([each for _, _, each in chosen] or [bins])
    wide = {name: grid // each for name, _, each in chosen}  # bins of the grid that are a region
    return Task.where(coordinates, {name: range(b * wide[name], (b + 1) * wide[name]) for name, b, _ in chosen}, grid)


def plans(coordinates: Coordinates, number: int, seed: int = 0, bins: int = 3) -> dict[str, tuple[Plan, ...]]:
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


def _plan(name: str, coordinates: Coordinates, rng: np.random.Generator, bins: int) -> Plan | None:
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
    return any(coordinate in task.names[:2] for clause in task.conditions() for coordinate, _ in clause)


def _avoidable(name: str, task: Task, rng: np.random.Generator) -> Task:
    """Something to avoid on the way to a task."""
    sprites = [feature.of for feature in task.features[::2]]
    asked = {coordinate.rpartition("_")[0] for clause in task.conditions() for coordinate, _ in clause}
    if name == "without_agent":
        sprite, axes = sprites[0], ["x", "y"]  # a whole third would part what is left, or hide objects for good
    else:
        agent_too = asked == {sprites[0]}  # where objects are to be placed, the agent has to go wherever they lie
        sprite = rng.choice(sprites if agent_too else sprites[1:])
        axes = ["x", "y"] if sprite in asked or rng.random() < 1 / 2 else [str(rng.choice(["x", "y"]))]
    return Task.where(
        task.coordinates, {f"{sprite}_{axis}": [int(rng.integers(task.bins))] for axis in axes}, task.bins
    )


def check_number(tasks: int) -> None:
    """Refuse what is no number of tasks, before any is drawn."""
    if not isinstance(tasks, Integral) or not 1 <= tasks <= MAX_TASKS:
        raise OutOfBounds(f"the tasks of a class are 1 to {MAX_TASKS:,}, but got {tasks}")


def example(features: tuple[str | Feature, ...]) -> Task:
    """A goal that says something in any world: the last feature in its first region."""
    last = described(features)[-1]
    return Task.where(features, {last.full_name: [0]}, len(last.regions))
