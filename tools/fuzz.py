"""Try to break what SECURITY.md promises, with random input of five kinds; exit with status 1 if anything breaks.

    python tools/fuzz.py folders --seconds 60 --seed 1

Parts: `folders` (hostile and damaged), `runs` (killed, or on a full disk), `phrases`, `arguments` and `server`; with
none named, all of them, one after the other. Each prints what it tried and how many violations it found.
"""

import argparse
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import schemathesis
from hypothesis import HealthCheck
from schemathesis.core.result import Ok
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import cumulant
from fuzz_commands import COMMAND, HANGS, Tried, arguments
from fuzz_folders import folders, runs

THIRDS = {"x": ("left", "centre", "right"), "y": ("bottom", "middle", "top")}
SPRITES = ("agent", "square", "circle", "triangle", "star", "diamond", "pentagon", "hexagon", "cross")
STATES, SLOW = 400, 10.0  # states on which a meaning is compared; seconds of a process that no phrase may take

Meaning = Callable[[np.ndarray], np.ndarray]  # of states, bins [n, k], whether each is meant [n]


class Writer:
    """Writes a phrase together with its meaning, which it works out from bins alone."""

    def __init__(self, rng: random.Random):
        self.rng, self.sprites, self.bins = rng, SPRITES[: rng.choice((3, 3, 9))], rng.choice((3, 3, 3, 1, 2, 7, 99))
        self.named: list[set[int]] = [{0, self.bins - 1} for _ in 2 * self.sprites]  # bins of interest, by feature

    def goal(self, size: int, inside: str = "") -> tuple[str, Meaning]:
        """Write a goal of so many conditions; `inside` is the operator around it."""
        if size == 1:
            return self.condition()
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

    def condition(self) -> tuple[str, Meaning]:
        """Write one or several things and a place, which may be denied: each of them, or any, is there."""
        things, every = self.rng.sample(self.sprites, self.rng.choice((1, 1, 2))), self.rng.random() < 0.6
        words, place = self.place()
        denied = self.rng.random() < 0.25
        cells = [[(2 * self.sprites.index(thing) + "xy".index(axis), bins) for axis, bins in place] for thing in things]
        for cell in cells:
            for i, bins in cell:
                self.named[i] |= bins

        def meaning(s: np.ndarray) -> np.ndarray:
            there = [np.all([np.isin(s[:, i], list(bins)) for i, bins in cell], axis=0) != denied for cell in cells]
            return np.all(there, axis=0) if every else np.any(there, axis=0)

        return f"{(' and ' if every else ' or ').join(things)} {'not ' * denied}{words}", meaning

    def place(self) -> tuple[str, list[tuple[str, set[int]]]]:
        """Write a place in words where there are three bins, else by the numbers of the bins."""
        axes = self.rng.choice(("x", "y", "xy", "yx"))
        if self.bins == 3 and self.rng.random() < 0.8:
            bins = [self.rng.randrange(3) for _ in axes]
            words = self.rng.choice((" ", "-", " of the ")).join(THIRDS[a][b] for a, b in zip(axes, bins, strict=True))
            return words, [(axis, {b}) for axis, b in zip(axes, bins, strict=True)]
        place = [(axis, set(self.rng.choices(range(self.bins), k=self.rng.randint(1, 5)))) for axis in axes]
        return " ".join(f"{a} {','.join(str(b + 1) for b in sorted(bins))}/{self.bins}" for a, bins in place), place

    def states(self) -> np.ndarray:
        """Draw states, mostly from the bins that the phrase names: a long conjunction would never hold else."""
        rng = np.random.default_rng(self.rng.randrange(2**32))
        return np.stack([rng.choice([*bins, int(rng.integers(self.bins))], STATES) for bins in self.named], axis=1)


def phrases(tried: Tried) -> None:
    """Parse phrases: a plan that means what was meant and whose own phrase parses back, or a refusal with a reason."""
    for _ in tried.cases():
        rng, writer = tried.rng, Writer(tried.rng)
        world, kind = cumulant.Spriteworld(writer.sprites[1:]), rng.choice(("goals", "plans"))
        sizes = (
            rng.choices((1, 2, 3), k=rng.randint(2, 4)) if kind == "plans" else [rng.choice((1, 2, 3, 4, 8, 12, 30))]
        )
        texts, meanings = zip(*(writer.goal(size) for size in sizes), strict=True)
        text, states = " then ".join(texts), writer.states()
        meant, start = [meaning(states) for meaning in meanings], time.process_time()
        tried.count[kind] += 1
        try:
            plan = cumulant.parse_plan(text, world.feature_names, world.colours)
            tried.check(cumulant.parse_plan(str(plan), world.feature_names) == plan, f"does not parse back: {text!r}")
        except cumulant.LanguageError as error:
            contradiction = "contradicts itself" in str(error) and not all(each.any() for each in meant)
            tried.check("alternatives" in str(error) or contradiction, f"{error}, though it means something: {text!r}")
            continue
        except Exception as error:
            tried.check(False, f"{error!r}: {text!r}")
            continue
        seconds = time.process_time() - start
        tried.check(seconds < SLOW, f"took {seconds:.0f} s: {text!r}")
        tried.check(len(plan.stages) == len(meant), f"{len(plan.stages)} stages: {text!r}")
        for stage, expected in zip(plan.stages, meant, strict=False):
            table, cells = np.asarray(stage.goal.table()), states * stage.goal.bins // writer.bins
            found = table[:, np.arange(states.shape[1]), cells].all(axis=2).any(axis=0)
            tried.check((found == expected).all(), f"means something else: {text!r}")
            tried.count.update({"states inside": int(expected.sum()), "states outside": int((~expected).sum())})


ODD: tuple[Any, ...] = (True, -1, 3, 2**64, 1.5, None, "x" * 3000, [[]], {"a": {}}, "\0", 1e308)
WARM, GROWTH = 30, 150e6  # cases after which all is compiled; bytes that the server may then grow by


def _talk(tried: Tried, port: int) -> None:
    """Send messages to the socket, nearly right or garbage: each is answered, unless it is no text."""
    rng = tried.rng
    with connect(f"ws://127.0.0.1:{port}/api/socket", max_size=None) as talk, contextlib.suppress(ConnectionClosed):
        for _ in range(rng.randrange(1, 9)):
            request: dict[str, Any] = {"phrase": rng.choice(SPRITES[:3]) + " left"}
            if rng.random() < 0.5:
                request[rng.choice(("phrase", "seed", "start"))] = rng.choice(ODD)
            text = json.dumps({"id": 1, "kind": rng.choice(("parse", "episode", "step", "x")), "request": request})
            i = rng.randrange(len(text))
            message = rng.choice((text, text, text[:i], text[:i] + "1e999" + text[i + 1 :], rng.randbytes(20)))
            tried.check(isinstance(message, bytes) or talk.protocol.close_code is None, f"hung up before {message!r}")
            talk.send(message)
            answer = json.loads(talk.recv(timeout=HANGS))
            tried.count["messages answered" if "reply" in answer else "messages refused"] += 1


def server(tried: Tried) -> None:
    """Ask a server what its description allows and what it does not, beside connections that say nothing."""

    def ask(case: schemathesis.Case) -> None:
        status = case.call(timeout=HANGS).status_code
        tried.count["requests answered" if status < 400 else "requests refused"] += 1
        tried.check(status < 500, f"status {status}: {case.as_curl_command()}")

    few = hypothesis.settings(max_examples=4, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    line, memory = [*COMMAND, "serve", "--port", "0"], list[int]()
    with tempfile.TemporaryFile("w+") as errors, contextlib.ExitStack() as ended:
        process = ended.enter_context(subprocess.Popen(line, stdout=subprocess.PIPE, stderr=errors, text=True))
        ended.callback(process.kill)
        assert process.stdout
        found = re.search(r":(\d+)", process.stdout.readline())
        assert found, "the server does not start"
        port = int(found[1])
        schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
        operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
        for number in tried.cases():
            if number < 20:
                ended.enter_context(socket.create_connection(("127.0.0.1", port)))  # and nothing is said on it
            case = tried.rng.choice(operations).as_strategy(tried.rng.choice(list(schemathesis.GenerationMode)))
            with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # not everything can be asked wrongly
                hypothesis.seed(tried.rng.random())(few(hypothesis.given(case)(ask)))()
            _talk(tried, port)
            memory.append(int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
        growth = memory[-1] - memory[min(WARM, len(memory) - 1)]
        tried.check(growth < GROWTH, f"memory grew by {growth / 1e6:.0f} MB")
        process.terminate()
        status = process.wait(HANGS)
        tried.check(status in (0, -signal.SIGTERM, 128 + signal.SIGTERM), f"stopped with status {status}")
        errors.seek(0)
        tried.check(not (said := errors.read()), f"stderr: {said[-600:]}")


PARTS: dict[str, Callable[[Tried], None]] = {
    part.__name__: part for part in (folders, runs, phrases, arguments, server)
}


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
    violations = 0
    for name in given.parts or PARTS:
        PARTS[name](tried := Tried(name, given.seed, given.seconds, given.count))
        print(tried, flush=True)
        violations += len(tried.violations)
    return int(violations > 0)


if __name__ == "__main__":
    sys.exit(main())
