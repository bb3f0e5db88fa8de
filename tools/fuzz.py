"""Try to break what SECURITY.md promises, with random input of five kinds; exit with status 1 if anything breaks.

    python tools/fuzz.py folders --seconds 60 --seed 1

Parts: `folders` (hostile and damaged), `runs` (killed, or on a full disk), `phrases`, `arguments` and `server`; with
none named, all of them, one after the other. Each prints what it tried and how many violations it found.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import cumulant
from fuzz_commands import Fuzz, arguments
from fuzz_folders import folders
from fuzz_runs import runs
from fuzz_server import server

THIRDS = {"x": ("left", "centre", "right"), "y": ("bottom", "middle", "top")}
COLOURS = {"agent": "white", "square": "light blue", "circle": "orange", "triangle": "dark green", "star": "pink"}
COLOURS |= {"diamond": "yellow", "pentagon": "red", "hexagon": "blue", "cross": "grey"}
SPRITES = tuple(COLOURS)
RELATIONS = ("above the {}", "left of the {}", "near {}", "next to the {}", "touching {}", "away from the {}")
NOISE = [
    "the",
    "(",
    ")",
    "not",
    "and",
    "or",
    "then",
    "keep",
    "without",
    "anywhere",
    "x 1/7",
    "x 1,2/3 x 2,3/3",
    "sqare",
]
NOISE += ["é", "💥", ",", "\x00", *SPRITES, *THIRDS["x"], *THIRDS["y"]]
STATES, SLOW = 48, 10.0  # states on which a meaning is compared; seconds of a process that no phrase may take

States = np.ndarray  # [n, k], floats in [0, 1]
Meaning = Callable[[States], np.ndarray]  # of states, bool [n]


class Writer:
    """Writes a phrase together with its meaning, which it works out from features alone."""

    def __init__(self, rng: random.Random, sprites: tuple[str, ...]):
        self.rng, self.sprites = rng, sprites
        self.bins = rng.choice((3,) * 6 + (1, 2, 4, 7, 9, 30, 99))
        self.conditions: list[tuple[int, tuple[int, ...]]] = []  # every (feature, bins) that the phrase names
        self.subject: tuple[list[str], bool] = ([], True)  # the last sprites named, and whether all of them are meant

    def goal(self, size: int, inside: str = "") -> tuple[str, Meaning]:
        """Write a goal of so many conditions; `inside` is the operator around it."""
        if size == 1:
            return self.condition(needs_subject=inside == "not")
        operator = self.rng.choice(("and", "or", "not"))
        if operator == "not":
            text, inner = self.goal(size - 1, "not")
            return f"not {text}", lambda s: ~inner(s)
        left = self.rng.randrange(1, size)
        (one, first), (other, second) = self.goal(left, operator), self.goal(size - left, operator)
        text = f"{one} {operator} {other}"
        tighter = inside == "not" or (inside, operator) == ("and", "or") or self.rng.random() < 0.1
        both = np.logical_and if operator == "and" else np.logical_or
        return f"({text})" if tighter else text, lambda s: both(first(s), second(s))

    def condition(self, needs_subject: bool) -> tuple[str, Meaning]:
        """Write a subject, which may be left out if there was one before, and a place, which may be denied."""
        named = needs_subject or not self.subject[0] or self.rng.random() < 0.8
        if named:
            number = self.rng.choice((1, 1, 1, 2, min(3, len(self.sprites))))
            self.subject = self.rng.sample(self.sprites, number), self.rng.random() < 0.6
        things, every = self.subject
        denied = self.rng.random() < 0.25
        words, place = self.place()
        subject = (" and " if every else " or ").join(map(self.called, things)) if named else ""
        cells = [[(2 * self.sprites.index(t) + "xy".index(axis), bins) for axis, bins in place.items()] for t in things]
        self.conditions += [cell for each in cells for cell in each]
        grid, together = self.bins, np.all if every else np.any

        def meaning(s: States) -> np.ndarray:
            within = np.minimum(np.floor(s * grid), grid - 1)
            held = [
                np.all([np.isin(within[:, i], bins) for i, bins in cell] + [np.ones(len(s), bool)], 0) for cell in cells
            ]
            return together([~each if denied else each for each in held], axis=0)

        return f"{subject} {'not ' * denied}{words}".strip(), meaning

    def place(self) -> tuple[str, dict[str, tuple[int, ...]]]:
        """Write where: in words where there are three bins, else by their numbers."""
        if self.bins != 3 or self.rng.random() < 0.1:
            axes = self.rng.choice(("x", "y", "xy", "yx"))
            number = self.rng.randint(1, min(self.bins, 5))
            cell = {axis: tuple(sorted(self.rng.sample(range(self.bins), number))) for axis in axes}
            return " ".join(f"{a} {','.join(str(b + 1) for b in bins)}/{self.bins}" for a, bins in cell.items()), cell
        x, y = self.rng.randrange(3), self.rng.randrange(3)
        kind, cell = self.rng.randrange(4), {"x": (x,), "y": (y,)}
        if kind == 0:
            return THIRDS["x"][x] + self.rng.choice(("", " edge", " of the room")) * (x != 1), {"x": (x,)}
        if kind == 1:
            return THIRDS["y"][y] + self.rng.choice(("", " edge", " wall")) * (y != 1), {"y": (y,)}
        if kind == 2 and 1 not in (x, y):
            return f"{THIRDS['y'][y]} {THIRDS['x'][x]} corner", cell
        words = [THIRDS["x"][x], THIRDS["y"][y]]
        self.rng.shuffle(words)
        return self.rng.choice((" ", "-", " of the ")).join(words), cell

    def called(self, sprite: str) -> str:
        """Return a sprite's name, sometimes with its colour."""
        return f"{COLOURS[sprite]} {sprite}" if self.rng.random() < 0.2 else sprite

    def states(self) -> States:
        """Draw states, most of them where many of the conditions hold: a long conjunction would never hold else."""
        rng = np.random.default_rng(self.rng.randrange(2**32))
        cells = rng.integers(self.bins, size=(STATES, 2 * len(self.sprites)))
        for row in cells[STATES // 4 :]:
            share = rng.random()
            for i, bins in self.conditions:
                if rng.random() < share:
                    row[i] = rng.choice(bins)
        inside = (cells + rng.uniform(0.05, 0.95, cells.shape)) / self.bins
        walls = np.where(cells == self.bins - 1, 1.0, np.where(cells == 0, 0.0, inside))
        return np.where(rng.random(cells.shape) < 0.1, walls, inside).astype(np.float32)


def _dressed(text: str, rng: random.Random) -> str:
    """Return the same, said with filler, capitals and punctuation."""
    form = rng.choice(("{}", "{}", "get the {}", "Put {}.", "MOVE the {} !"))
    text = form.format(text)
    return text.replace(" and ", ", and ").replace(" not ", " NOT the ").upper() if rng.random() < 0.2 else text


def _mistaken(text: str, rng: random.Random) -> str:
    """Return a phrase with a few words or characters lost, doubled, moved or put in."""
    join, parts = rng.choice((("", list(text)), (" ", text.split())))
    for _ in range(rng.randint(1, 4)):
        i, kind = rng.randrange(len(parts) + 1), rng.randrange(4)
        new = ([], parts[i : i + 1] * 2, [rng.choice(NOISE), *parts[i : i + 1]], parts[i : i + 1][::-1])[kind]
        parts[i : i + 1] = new
    return join.join(parts)


def _odd(rng: random.Random, writer: Writer) -> str:
    """Return a text of which nothing is known: mistaken, random, long, deep, or hard on the normal form."""
    goal, spot = writer.goal(rng.randint(1, 8))[0], lambda: f"{rng.choice(writer.sprites)} x {rng.randint(1, 99)}/99"
    depth, times = rng.randint(1, 60), rng.randint(2, 8)
    kinds: list[Callable[[], str]] = [
        lambda: _mistaken(goal, rng),
        lambda: _mistaken(goal, rng),
        lambda: " ".join(rng.choices(NOISE, k=rng.randint(0, 30))),
        lambda: "".join(chr(rng.randrange(rng.choice((0x80, 0x3000, 0x110000)))) for _ in range(rng.randint(0, 60))),
        lambda: " or ".join([goal] * rng.randint(1, 200)) if rng.random() < 0.5 else "x 1" + ",1" * 3000,
        lambda: "not (" * depth + goal + ")" * depth,
        lambda: " and ".join(f"({' or '.join(spot() for _ in range(3))})" for _ in range(times)),
        lambda: "not (" + " and ".join(f"not ({spot()} and {spot()})" for _ in range(8 * times)) + ")",
    ]
    return rng.choice(kinds)()


def _read(fuzz: Fuzz, text: str, world: cumulant.Spriteworld) -> cumulant.Plan | cumulant.LanguageError | None:
    """Parse a phrase: a plan, or a refusal of one line, in time; None, and a violation, for anything else."""
    start = time.process_time()
    try:
        return cumulant.parse_plan(text, world.feature_names, world.colours)
    except cumulant.LanguageError as error:
        tidy = "\n" not in str(error) and error.pointed.startswith(str(error))
        fuzz.check(tidy, f"refusal of more than one line: {text!r}: {error}")
        return error
    except Exception as error:
        fuzz.check(False, f"{error!r}: {text!r}")
        return None
    finally:
        fuzz.check(time.process_time() - start < SLOW, f"took {time.process_time() - start:.0f} s: {text!r}")


def _relation(rng: random.Random, writer: Writer) -> str:
    """Return a phrase about how things lie to each other, which no goal says."""
    one, other = rng.sample(writer.sprites[1:], 2)
    return f"{rng.choice(('', 'agent left and ', 'agent left then '))}{one} {rng.choice(RELATIONS).format(other)}"


def _compare(fuzz: Fuzz, text: str, plan: cumulant.Plan, states: States, meant: list[np.ndarray]) -> None:
    """Compare the stages of a plan with what was meant, state by state."""
    fuzz.check(len(plan.stages) == len(meant), f"{len(plan.stages)} stages: {text!r}")
    for stage, expected in zip(plan.stages, meant, strict=False):
        table, bins = np.asarray(stage.goal.table()), stage.goal.bins
        cells = np.clip(np.floor(states * np.float32(bins)).astype(int), 0, bins - 1)
        found = table[:, np.arange(states.shape[1]), cells].all(axis=2).any(axis=0)
        if fuzz.rng.random() < 0.02:  # one by one this is slow
            also = jax.vmap(cumulant.reached, (None, 0))(jnp.asarray(table), jnp.asarray(states))
            fuzz.check((np.asarray(also) == found).all(), f"`reached` disagrees: {text!r}")
        fuzz.check((found == expected).all(), f"means something else: {text!r}")
        fuzz.tried.update({"states inside": int(expected.sum()), "states outside": int((~expected).sum())})


def phrases(fuzz: Fuzz) -> None:
    """Parse phrases: a plan or a LanguageError, canonical phrases that parse back, and the meaning that was meant."""
    for _ in fuzz.cases():
        rng, sprites = fuzz.rng, SPRITES if fuzz.rng.random() < 0.3 else SPRITES[:3]
        world, writer, meanings = cumulant.Spriteworld(sprites[1:]), Writer(rng, sprites), list[Meaning]()
        kind = rng.choice(("goals", "goals", "plans", "odd texts", "relations"))
        fuzz.tried[kind] += 1
        if kind in ("goals", "plans"):
            texts = []
            for _ in range(1 if kind == "goals" else rng.randint(2, 4)):
                writer.subject = [], True
                text, meaning = writer.goal(rng.choice((1, 1, 2, 2, 3, 4, 6, 8, 12) if kind == "goals" else (1, 2, 3)))
                texts.append(text)
                meanings.append(meaning)
            text = _dressed(" then ".join(texts), rng)
        else:
            text = _relation(rng, writer) if kind == "relations" else _odd(rng, writer)
        plan, states = _read(fuzz, text, world), writer.states()
        meant = [meaning(states) for meaning in meanings]
        if isinstance(plan, cumulant.Plan):
            fuzz.tried["parsed"] += 1
            fuzz.check(kind != "relations", f"a relation was read as a goal: {text!r}")
            fuzz.check(_read(fuzz, str(plan), world) == plan, f"does not parse back: {text!r}")
            if meant:
                _compare(fuzz, text, plan, states, meant)
        elif plan is not None and meant:
            contradiction = "contradicts itself" in str(plan) and not all(each.any() for each in meant)
            fuzz.check("alternatives" in str(plan) or contradiction, f"refused, though it means something: {text!r}")


PARTS: dict[str, Callable[[Fuzz], None]] = {part.__name__: part for part in (folders, runs, phrases, arguments, server)}


def main() -> int:
    """Run the parts that are named, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=60, help="of each part")
    parser.add_argument("--count", type=int, default=10**9, help="cases of each part, at most")
    parser.add_argument("--seed", type=int, default=0, help="of all random choices")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    found = 0
    for name in given.parts or PARTS:
        PARTS[name](fuzz := Fuzz(given.seed, given.seconds, given.count))
        told = ", ".join(f"{count:,} {what}" for what, count in sorted(fuzz.tried.items()))
        print(f"{name}: {told}; violations {len(fuzz.violations)}", flush=True)
        print("".join(f"    {each[:1000]}\n" for each in fuzz.violations[:20]), end="")
        found += len(fuzz.violations)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
