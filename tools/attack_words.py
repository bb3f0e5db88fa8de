"""Attack the language of goals: a phrase ends in a task or a LanguageError, and a task's own phrase parses back.

Phrases are goals written by a grammar, goals with mistakes, random words, random text, long and deeply nested ones, and
ones that strain the normal form. Besides, goals are generated together with what they mean, which is worked out here
anew, state by state, and compared with the tasks that the parser makes of the words. Exits with 1 if anything is wrong.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from cumulant.goals.language import MAX_DEPTH, LanguageError, parse
from cumulant.goals.tasks import Task, reached

OBJECTS = ("square", "circle", "triangle", "star", "diamond", "pentagon", "hexagon", "cross")
THIRDS_X, THIRDS_Y = ("left", "centre", "right"), ("bottom", "middle", "top")
NOISE = ("anywhere", "x 1/7", "y 2,3/7", "x 1/3", "x 1,2/3 x 2,3/3 x 1,3/3", "sqare", "é", "💥", ",", "\x00", "y")
STATES = 48  # on which a phrase's meaning is looked at
LONG = 1000  # characters of a phrase, as many as a person may give
LARGEST = 10_000_000

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


# What phrases mean


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


# Phrases


class Writer:
    """Writes phrases for a world's sprites; the same seed writes the same ones."""

    def __init__(self, sprites: tuple[str, ...], seed: int):
        """Draws from the seed alone."""
        self.sprites, self.rng = sprites, random.Random(seed)
        self.kinds: dict[str, tuple[float, Callable[[], str]]] = {
            "goals": (0.6, lambda: self.goal()[2]),
            "goals with mistakes": (0.15, self.mistaken),
            "random words": (0.1, self.words),
            "random text": (0.06, self.text),
            "long": (0.01, self.long),
            "nested": (0.04, self.nested),
            "straining": (0.04, self.straining),
        }

    def phrase(self) -> tuple[str, str]:
        """A phrase of any kind, and its kind."""
        kind = self.rng.choices(list(self.kinds), [share for share, _ in self.kinds.values()])[0]
        return kind, self.kinds[kind][1]()

    def goal(self, size: int = 0) -> tuple[Node | Atom, int, str]:
        """A goal with what it means: its structure, the bins that it speaks of, and its words."""
        bins = self.rng.choice((3,) * 6 + (1, 2, 4, 7, 9, 30, 99))
        node = self._node(bins, size or self.rng.choice((1, 1, 2, 2, 3, 4, 6, 8, 12)), False)
        return node, bins, self._dressed(self._text(node))

    def _node(self, bins: int, size: int, named: bool) -> Node | Atom:
        """A structure of so many conditions; `named` says whether a subject stands before it."""
        if size == 1:
            atom = self._atom(bins, named)
            return Node("not", (atom,)) if not atom.denied and self.rng.random() < 0.2 else atom
        if self.rng.random() < 0.15:
            return Node("not", (self._node(bins, size, named),))
        left = self.rng.randrange(1, size)
        first = self._node(bins, left, named)
        return Node(self.rng.choice(("and", "or")), (first, self._node(bins, size - left, True)))

    def _atom(self, bins: int, named: bool) -> Atom:
        number = self.rng.choice((1, 1, 1, 2, min(3, len(self.sprites))))
        sprites = () if named and self.rng.random() < 0.2 else tuple(self.rng.sample(self.sprites, number))
        allowed, words = self._third() if bins == 3 and self.rng.random() < 0.9 else self._cell(bins)
        return Atom(sprites, self.rng.random() < 0.6, bool(sprites) and self.rng.random() < 0.25, allowed, words)

    def _third(self) -> tuple[dict[str, tuple[int, ...]], str]:
        if self.rng.random() < 0.02:
            return {}, "anywhere"
        x, y = self.rng.randrange(3), self.rng.randrange(3)
        match self.rng.randrange(4):
            case 0:
                return {"x": (x,)}, self.rng.choice(("centre", "center")) if x == 1 else THIRDS_X[x]
            case 1:
                return {"y": (y,)}, THIRDS_Y[y]
        # Beside a word of its own axis, centre or middle is of the other one; two of them are both.
        middles = ("centre", "center", "middle")
        words = [self.rng.choice(middles) if word in middles else word for word in (THIRDS_X[x], THIRDS_Y[y])]
        self.rng.shuffle(words)
        return {"x": (x,), "y": (y,)}, self.rng.choice((" ", "-", " of the ")).join(words)

    def _cell(self, bins: int) -> tuple[dict[str, tuple[int, ...]], str]:
        allowed = {
            axis: tuple(sorted(self.rng.sample(range(bins), self.rng.randint(1, min(bins, 5)))))
            for axis in self.rng.choice(("x", "y", "xy", "yx"))
        }
        comma = self.rng.choice((",", ", "))
        return allowed, " ".join(f"{a} {comma.join(str(b + 1) for b in cell)}/{bins}" for a, cell in allowed.items())

    def _text(self, node: Node | Atom, inside: str = "") -> str:
        if isinstance(node, Atom):
            subject = (" and " if node.every else " or ").join(node.sprites)
            return f"{subject} {'not ' * node.denied}{node.words}".strip()
        if node.kind == "not":
            return f"not {self._text(node.parts[0], 'not')}"
        text = f" {node.kind} ".join(self._text(part, node.kind) for part in node.parts)
        tighter = inside == "not" or (inside, node.kind) == ("and", "or")
        return f"({text})" if tighter or self.rng.random() < 0.1 else text

    def _dressed(self, text: str) -> str:
        """The same said with filler, capitals and punctuation."""
        match self.rng.randrange(4):
            case 0:
                return self.rng.choice(("get the {}", "Put {}.", "MOVE the {} !", "bring a {}")).format(text)
            case 1:
                return text.replace(" and ", ", and ").replace(" not ", " NOT the ").upper()
        return text

    def mistaken(self) -> str:
        """A goal with a few words or characters lost, doubled, moved or put in."""
        parts = self.rng.choice((str.split, list))(self.goal()[2])
        join = "" if parts and len(max(parts, key=len)) == 1 else " "
        for _ in range(self.rng.randint(1, 4)):
            i = self.rng.randrange(len(parts) + 1)
            match self.rng.randrange(4):
                case 0:
                    del parts[i : i + 1]
                case 1:
                    parts[i:i] = parts[i : i + 1]
                case 2:
                    parts.insert(i, self.rng.choice(("and", "or", "not", "(", ")", *NOISE, *self.sprites, *THIRDS_X)))
                case 3:
                    parts[i : i + 3] = self.rng.sample(parts[i : i + 3], len(parts[i : i + 3]))
        return join.join(parts)

    def words(self) -> str:
        """Words of the language in any order."""
        known = (*self.sprites, *THIRDS_X, *THIRDS_Y, "center", "and", "or", "not", "(", ")", "the")
        vocabulary = known * 3 + NOISE if self.rng.random() < 0.3 else known
        return " ".join(self.rng.choices(vocabulary, k=self.rng.randint(0, 30)))

    def text(self) -> str:
        """Any characters at all."""
        top = self.rng.choice((0x80, 0x250, 0x3000, 0x110000))
        return "".join(chr(self.rng.randrange(top)) for _ in range(self.rng.randint(0, 60)))

    def long(self) -> str:
        """A phrase of thousands of characters."""
        part = self.rng.choice((lambda: self.goal()[2], self._spot, self.words, self.text))
        join, length, phrase = self.rng.choice((" or ", " and ", " ")), self.rng.randint(1000, 6000), part()
        while len(phrase) < length:
            phrase += join + part()
        return self.rng.choice((phrase, f"not ({phrase})", "q" * length, "x 1" + ",1" * length, "the " * length))

    def nested(self) -> str:
        """A phrase at the edge of the deepest that is read."""
        depth, phrase = self.rng.randint(1, MAX_DEPTH + 5), self._spot()
        for _ in range(depth):
            match self.rng.randrange(4):
                case 0:
                    phrase = f"not {phrase}"
                case 1:
                    phrase = f"({phrase} {self.rng.choice(('and', 'or'))} {self._spot()})"
                case 2:
                    phrase = f"({self._spot()} {self.rng.choice(('and', 'or'))} ({phrase}))"
                case 3:
                    phrase = f"not ({phrase})"
        return phrase

    def straining(self) -> str:
        """Many alternatives at once, up to a thousand characters or so."""
        grid = self.rng.random() < 0.2
        spot = self._far_spot if grid else self._spot
        width, times = self.rng.randint(1, 3), self.rng.randint(2, 8)
        group = " and ".join(f"({' or '.join(spot() for _ in range(width + 1))})" for _ in range(times))
        denied = " and ".join(f"not ({spot()} and {spot()})" for _ in range(times))
        either = " or ".join(spot() for _ in range(8 * times))
        pairs = " and ".join(f"({sprite} left or top)" for sprite in self.sprites[:6])  # as many as are allowed
        phrases = (group, denied, either, pairs, f"{group} and {group}", f"not ({either})", f"not ({denied})")
        chosen = self.rng.choice(phrases)
        return " and ".join([chosen] * self.rng.choice((1, 1, 1, max(1, LONG // len(chosen)))))

    def _spot(self) -> str:
        return f"{self.rng.choice(self.sprites)} {self.rng.choice(THIRDS_Y)} {self.rng.choice(THIRDS_X)}"

    def _far_spot(self) -> str:
        return f"{self.rng.choice(self.sprites)} not {self.rng.choice('xy')} {self.rng.randint(1, 99)}/99"


# The attack


@dataclass
class Findings:
    """What came of all phrases."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # one line for each thing that must not be
    slowest: dict[str, tuple[float, str]] = field(default_factory=dict)  # seconds of processor time, phrase

    def blame(self, what: str, phrase: str) -> None:
        """Note something that must not be."""
        self.counts[what] += 1
        self.wrong.append(f"{what}: {phrase!r}")


def timed_parse(phrase: str, sprites: tuple[str, ...], findings: Findings) -> Task | LanguageError | None:
    """The task or the refusal; None, and blame, for any other exception. Keeps the slowest phrases."""

    def once() -> tuple[float, Task | LanguageError]:
        start = time.process_time()
        try:
            result: Task | LanguageError = parse(phrase, sprites)
        except LanguageError as error:
            result = error
        return time.process_time() - start, result

    try:
        seconds, result = once()
    except Exception as error:  # whatever it is, it is a finding
        findings.blame(f"foreign exception {type(error).__name__}", phrase)
        return None
    about = f"slowest, up to {LONG:,} characters" if len(phrase) <= LONG else "slowest, longer"
    if seconds > findings.slowest.get(about, (0.0, ""))[0]:
        seconds = min(seconds, *(once()[0] for _ in range(2)))  # a first time may be chance
        findings.slowest[about] = max(findings.slowest.get(about, (0.0, "")), (seconds, phrase))
    return result


def attack(writer: Writer, phrases: int, findings: Findings) -> None:
    """Count what becomes of so many phrases, and whether each task's own phrase means the same task."""
    for _ in range(phrases):
        kind, phrase = writer.phrase()
        findings.counts[kind] += 1
        task = timed_parse(phrase, writer.sprites, findings)
        if isinstance(task, LanguageError):
            findings.counts["refused"] += 1
            if "\n" in str(task) or not task.pointed.startswith(str(task)):
                findings.blame("refusal of more than one line", phrase)
        elif task is not None:
            findings.counts["parsed"] += 1
            canonical = str(task)
            findings.counts["longest canonical"] = max(findings.counts["longest canonical"], len(canonical))
            if timed_parse(canonical, writer.sprites, findings) != task:
                findings.blame("canonical that does not parse back", phrase)


def compare(writer: Writer, goals: int, findings: Findings, also_reached: int = 100) -> None:
    """Whether so many goals, worked out here, hold exactly where their tasks hold.

    The first few are put to `reached` itself too, which is slow one by one.
    """
    for i in range(goals):
        goal, bins, phrase = writer.goal()
        states = states_for(goal, writer.sprites, bins, i)
        meant = truth(goal, writer.sprites, bins, states)
        task = timed_parse(phrase, writer.sprites, findings)
        if isinstance(task, LanguageError):
            if "alternatives" in str(task):
                findings.counts["truth: too complex"] += 1
            elif "contradicts itself" in str(task) and not meant.any():
                findings.counts["truth: contradictions"] += 1
            else:
                findings.blame("truth: refused, though it means something", phrase)
        elif task is not None:
            findings.counts["truth: tasks"] += 1
            findings.counts["truth: states inside"] += int(meant.sum())
            findings.counts["truth: states outside"] += int((~meant).sum())
            if not (in_task(task, states) == meant).all():
                findings.blame("truth: means something else", phrase)
            if i < also_reached and not (also_in_task(task, states) == meant).all():
                findings.blame("truth: `reached` disagrees", phrase)


def within(low: int, high: int) -> Callable[[str], int]:
    """An option's type: a whole number within bounds."""

    def number(text: str) -> int:
        if not low <= (value := int(text)) <= high:
            raise argparse.ArgumentTypeError(f"must be {low:,} to {high:,}")
        return value

    return number


def main() -> int:
    """Attack, print what came of it, and say with the exit code whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phrases", type=within(0, LARGEST), default=10_000)
    parser.add_argument("--truth", type=within(0, LARGEST), default=2_000, help="goals to compare with their meaning")
    parser.add_argument("--objects", type=int, choices=(2, len(OBJECTS)), default=2)
    parser.add_argument("--seed", type=within(0, 2**32 - 1), default=0)
    options = parser.parse_args()
    findings, began = Findings(), time.monotonic()
    writer = Writer(("agent", *OBJECTS[: options.objects]), options.seed)
    attack(writer, options.phrases, findings)
    compare(writer, options.truth, findings)
    for name, count in findings.counts.items():
        print(f"{name:45} {count:>12,}")
    for name, (seconds, phrase) in findings.slowest.items():
        print(f"{name:45} {1000 * seconds:>9.1f} ms  {phrase[:100]!r} ({len(phrase):,} characters)")
    print(f"{'wrong':45} {len(findings.wrong):>12,}   in {time.monotonic() - began:.0f} s")
    for line in findings.wrong[:20]:
        print(f"  {line[:300]}")
    return bool(findings.wrong)


if __name__ == "__main__":
    sys.exit(main())
