"""Attack the language of goals: a phrase ends in a task or a LanguageError, and a task's own phrase parses back.

Phrases are goals written by a grammar, goals with mistakes, random words, random text, long and deeply nested ones, and
ones that strain the normal form. Besides, goals are generated together with what they mean, which is worked out here
anew, state by state, and compared with the tasks that the parser makes of the words. Exits with 1 if anything is wrong.

    python tools/attack_words.py --phrases 1000000 --truth 100000

The work is cut into blocks, each with a seed of its own, so what is found does not depend on the number of processes.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from word_attack.findings import Findings, attack, compare
from word_attack.writer import Writer

OBJECTS = ("square", "circle", "triangle", "star", "diamond", "pentagon", "hexagon", "cross")
LARGEST = 10_000_000
PHRASES_AT_ONCE, GOALS_AT_ONCE = 1000, 100  # to a block
ALSO_REACHED = 5  # goals of a block that are put to `reached` itself


class Block(NamedTuple):
    """A part of the work: phrases to attack with, or goals to compare with their meaning."""

    sprites: tuple[str, ...]
    seed: str
    phrases: int = 0
    goals: int = 0


def blocks(phrases: int, goals: int, objects: int, seed: int) -> Iterator[Block]:
    """All of the work."""
    sprites = ("agent", *OBJECTS[:objects])
    for first in range(0, phrases, PHRASES_AT_ONCE):
        yield Block(sprites, f"{seed} phrases {first}", phrases=min(PHRASES_AT_ONCE, phrases - first))
    for first in range(0, goals, GOALS_AT_ONCE):
        yield Block(sprites, f"{seed} goals {first}", goals=min(GOALS_AT_ONCE, goals - first))


def found_in(block: Block) -> Findings:
    """What comes of a block."""
    findings, writer = Findings(), Writer(block.sprites, block.seed)
    attack(writer, block.phrases, findings)
    compare(writer, block.goals, findings, ALSO_REACHED)
    return findings


def found_in_all(work: Iterator[Block], processes: int) -> Findings:
    """What comes of all blocks, in their order. A process that dies ends it all, with an exception."""
    os.environ["JAX_PLATFORMS"] = "cpu"  # of the processes to come: a GPU would be the first one's alone
    findings = Findings()
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for found in pool.map(found_in, work):
            findings.add(found)
    return findings


def show(findings: Findings, seconds: float) -> None:
    """Print it as a table, and the first things that are wrong."""
    for name, count in sorted(findings.counts.items()):
        print(f"{name:45} {count:>12,}")
    print(f"{'longest canonical phrase, characters':45} {findings.longest:>12,}")
    for name, (worst, phrase) in sorted(findings.slowest.items()):
        print(f"{name:45} {1000 * worst:>9.1f} ms  {phrase[:100]!r} ({len(phrase):,} characters)")
    print(f"{'wrong':45} {len(findings.wrong):>12,}   in {seconds:.0f} s")
    for line in findings.wrong[:20]:
        print(f"  {line[:300]}")


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
    parser.add_argument("--processes", type=within(1, 1024), default=os.cpu_count() or 1, help="default: one per core")
    given = parser.parse_args()
    began = time.monotonic()
    findings = found_in_all(blocks(given.phrases, given.truth, given.objects, given.seed), given.processes)
    show(findings, time.monotonic() - began)
    return bool(findings.wrong)


if __name__ == "__main__":
    sys.exit(main())
