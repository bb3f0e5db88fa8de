"""What comes of phrases: a task or a LanguageError, in a time that is measured; all else is wrong."""

import time
from collections import Counter
from dataclasses import dataclass, field

from cumulant.goals.errors import LanguageError
from cumulant.goals.language import parse
from cumulant.goals.tasks import Task
from cumulant.worlds.spriteworld import Spriteworld
from word_attack.meaning import also_in_task, in_task, states_for, truth
from word_attack.writer import LONG, Writer


@dataclass
class Findings:
    """What came of all phrases."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)  # one line for each thing that must not be
    slowest: dict[str, tuple[float, str]] = field(default_factory=dict)  # seconds of processor time, phrase
    longest: int = 0  # characters of a task's own phrase

    def blame(self, what: str, phrase: str) -> None:
        """Note something that must not be."""
        self.counts[what] += 1
        self.wrong.append(f"{what}: {phrase!r}")

    def add(self, other: "Findings") -> None:
        """Take in what came of other phrases."""
        self.counts.update(other.counts)
        self.wrong += other.wrong
        for about, worst in other.slowest.items():
            self.slowest[about] = max(self.slowest.get(about, (0.0, "")), worst)
        self.longest = max(self.longest, other.longest)


def names_of(sprites: tuple[str, ...]) -> tuple[str, ...]:
    """The features of a world with these sprites."""
    return tuple(f"{sprite}_{axis}" for sprite in sprites for axis in "xy")


def timed_parse(phrase: str, sprites: tuple[str, ...], findings: Findings) -> Task | LanguageError | None:
    """The task or the refusal; None, and blame, for any other exception. Keeps the slowest phrases."""

    def once() -> tuple[float, Task | LanguageError]:
        start = time.process_time()
        try:
            result: Task | LanguageError = parse(phrase, names_of(sprites), Spriteworld(sprites[1:]).colours)
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
            if kind == "relations":
                findings.blame("relation that was read as a goal", phrase)
            canonical = str(task)
            findings.longest = max(findings.longest, len(canonical))
            if timed_parse(canonical, writer.sprites, findings) != task:
                findings.blame("canonical that does not parse back", phrase)


def compare(writer: Writer, goals: int, findings: Findings, also_reached: int) -> None:
    """Whether so many goals, worked out here, hold exactly where their tasks hold.

    The first few are put to `reached` itself too, which is slow one by one.
    """
    for i in range(goals):
        goal, bins, phrase = writer.goal()
        states = states_for(goal, writer.sprites, bins, writer.rng.randrange(2**32))
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
