"""What goals mean, worked out anew, state by state: nothing here asks the parser."""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from cumulant.goals.tasks import Task, reached

STATES = 48  # on which a phrase's meaning is looked at

Truth = np.ndarray  # [states], bool
States = np.ndarray  # [states, k], floats in [0, 1]


@dataclass(frozen=True)
class Atom:
    """Sprites in a place: a subject (none: the last one named), whether all or any are meant, and where."""

    sprites: tuple[str, ...]
    every: bool
    denied: bool  # each of them is elsewhere
    allowed: dict[str, tuple[int, ...]]  # axis → bins
    words: str


@dataclass(frozen=True)
class Node:
    """`and`, `or` or `not` of parts."""

    kind: str
    parts: tuple["Node | Atom", ...]


def truth(goal: Node | Atom, sprites: tuple[str, ...], bins: int, states: States) -> Truth:
    """Where the goal holds, read off what was meant."""
    last: Atom | None = None

    def holds(atom: Atom, denied: bool) -> Truth:
        nonlocal last
        last = atom if atom.sprites else last
        assert last is not None
        each = []
        for sprite in last.sprites:
            inside = np.ones(len(states), bool)
            for axis, allowed in atom.allowed.items():
                f = states[:, 2 * sprites.index(sprite) + "xy".index(axis)]
                within = [(b / bins <= f) & ((f < (b + 1) / bins) | (b == bins - 1)) for b in allowed]
                inside &= np.any(within, axis=0)
            each.append(~inside if denied else inside)
        return np.all(each, axis=0) if last.every else np.any(each, axis=0)

    def value(node: Node | Atom) -> Truth:
        if isinstance(node, Atom):
            return holds(node, node.denied)
        if node.kind == "not":
            (part,) = node.parts
            if isinstance(part, Atom) and not part.sprites:  # "… and not left": it belongs to the place
                return holds(part, True)
            return ~value(part)
        values = [value(part) for part in node.parts]
        return np.all(values, axis=0) if node.kind == "and" else np.any(values, axis=0)

    return value(goal)


def atoms(goal: Node | Atom) -> Iterator[Atom]:
    """The conditions of a goal, from left to right."""
    if isinstance(goal, Atom):
        yield goal
    else:
        for part in goal.parts:
            yield from atoms(part)


def states_for(goal: Node | Atom, sprites: tuple[str, ...], bins: int, seed: int) -> States:
    """Random states, most of them where many of the goal's conditions hold: else a long conjunction never would."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(bins, size=(STATES, 2 * len(sprites)))
    conditions = list(atoms(goal))
    for row in cells[STATES // 4 :]:
        subject: tuple[str, ...] = ()
        chosen = rng.random(len(conditions)) < rng.random()
        for atom, wanted in zip(conditions, chosen, strict=True):
            subject = atom.sprites or subject
            for sprite in subject if wanted else ():
                for axis, allowed in atom.allowed.items():
                    row[2 * sprites.index(sprite) + "xy".index(axis)] = rng.choice(allowed)
    inside = (cells + rng.uniform(0.05, 0.95, cells.shape)) / bins
    wall = rng.random(cells.shape) < 0.1
    ends = np.where(cells == bins - 1, 1.0, np.where(cells == 0, 0.0, inside))
    return np.where(wall, ends, inside).astype(np.float32)


def in_task(task: Task, states: States) -> Truth:
    """Where the task holds, as `reached` says of its table, for all states at once."""
    cells = np.clip(np.floor(states * np.float32(task.bins)).astype(int), 0, task.bins - 1)
    met = task.table()[:, np.arange(states.shape[1]), cells]  # [clauses, states, k]
    return np.asarray(met.all(axis=2).any(axis=0))


def also_in_task(task: Task, states: States) -> Truth:
    """The same by `reached` itself."""
    return np.asarray(jax.vmap(reached, (None, 0))(jnp.asarray(task.table()), jnp.asarray(states)))
