"""Attack `cumulant serve` on this machine in all the ways that a crowd can, and print what it held as a table.

Starts a server of its own, and stops it with viewers still connected. Everything goes to 127.0.0.1, from several
addresses of the loopback, for the server limits each one (Linux has them all; 127.0.0.1 is one of 127.0.0.0/8).
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

PHRASES = ("square top left and circle right", "not (square left or circle top)", "get the circle to the middle")
SPRITES, METHODS = ("agent", "square", "circle"), ("committed", "plain", "oracle", "random")
HANDS = 16  # sockets, each from an address of its own, that send goals and messages
TO_AN_ADDRESS = 20  # viewers
ALONE = 5  # seconds that one viewer has the server to itself
PATIENCE = 120.0  # seconds for an answer
HEADERS = (
    b"Origin: http://[",
    b"Host: [",
    b"Host: a b",
    b"X: \0",
    b"Content-Length: x",
    b"Range: \xff",
    b"Cookie: \xff",
)
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Part:
    """What came of one kind of attack."""

    name: str
    answers: Counter = field(default_factory=Counter)  # by what they were: reply, problem, a status, closed
    seconds: list[float] = field(default_factory=list)  # that each answer took
    memory: list[float] = field(default_factory=list)  # of the server, in MB, along the way
    frames: list[int] = field(default_factory=list)  # seen by each viewer

    @property
    def failures(self) -> int:
        """Answers of the server's own failing, and calls with none."""
        return sum(n for what, n in self.answers.items() if what in ("5xx", "lost"))

    def row(self) -> str:
        """A line of the table."""
        times = [f"{1000 * quantile(self.seconds, q):.0f}" for q in (0.5, 0.99, 1)] if self.seconds else ["-"] * 3
        memory = [f"{self.memory[i]:.0f}" for i in (0, len(self.memory) // 2, -1)] if self.memory else ["-"] * 3
        counts = ", ".join(f"{n} {what}" for what, n in sorted(self.answers.items()))
        return " | ".join([self.name, str(self.answers.total()), str(self.failures), *times, *memory, counts])


def quantile(values: list[float], q: float) -> float:
    """The value below which a part q of the values lie."""
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


@dataclass(frozen=True)
class Target:
    """The server."""

    port: int
    pid: int

    def open(self, address: int, **options: Any) -> connect:
        """A socket to it from the loopback's address of a number."""
        local = (loopback(address), 0)
        url = f"ws://127.0.0.1:{self.port}/api/socket"
        return connect(url, local_addr=local, max_size=None, open_timeout=PATIENCE, **options)

    async def send(self, address: int, data: bytes, wait: float = PATIENCE) -> bytes:
        """Raw bytes, and all that comes back."""
        local = (loopback(address), 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=local)
        try:
            writer.write(data)
            return await asyncio.wait_for(reader.read(), wait)
        except (TimeoutError, ConnectionError):
            return b""
        finally:
            writer.close()

    @property
    def megabytes(self) -> float:
        """Resident memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE / 1e6

    @property
    def busy_seconds(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def loopback(number: int) -> str:
    """An address of this machine's own."""
    return f"127.0.{number // 200}.{2 + number % 200}"


async def call(socket: ClientConnection, part: Part, text: str | bytes) -> dict[str, Any]:
    """Send a message; the answer is counted and timed. Raises ConnectionClosed where the server hangs up."""
    start = time.monotonic()
    await socket.send(text)
    answer = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))
    part.seconds.append(time.monotonic() - start)
    part.answers["reply" if "reply" in answer else "problem"] += 1
    return answer


def asked(kind: str, **request: Any) -> str:
    """A call as the socket takes it."""
    return json.dumps({"id": 1, "kind": kind, "request": request})


def goals(number: int, chance: random.Random) -> list[str]:
    """Distinct goals, on all grids in turn."""
    found: dict[str, None] = {}
    while len(found) < number:
        bins = 2 + len(found) % 98
        where = [f"{chance.choice(SPRITES)} {chance.choice('xy')} {chance.randint(1, bins)}/{bins}" for _ in range(3)]
        found[" or ".join(where[: chance.randint(1, 3)])] = None
    return list(found)


def question(phrase: str, chance: random.Random) -> str:
    """Something to ask about a goal; oracles have no answer on fine grids, which is an answer too."""
    kind = chance.choices(("episode", "evaluate", "teach", "parse"), (8, 2, 1, 1))[0]
    seed = {"seed": chance.randrange(2**32)} if kind != "parse" else {}
    method = {"method": chance.choice(METHODS)} if kind in ("episode", "evaluate") else {}
    return asked(kind, phrase=phrase, **seed, **method)


def message(chance: random.Random) -> str | bytes:
    """A message of any quality: right, nearly right, garbage."""
    phrase = chance.choice(PHRASES)
    right = chance.choice([asked("parse", phrase=phrase), asked("episode", phrase=phrase, seed=chance.randrange(99))])
    i, odd = (
        chance.randrange(len(right)),
        chance.choice(["true", "null", '"', "{", "1e999", "\0", "\u2028", "-1", "[]"]),
    )
    wrong: list[Any] = [True, -1, 2**64, 1.5, None, "x" * 3000, [[]], {"a": {}}]
    nearly = {"id": chance.choice([1, *wrong]), "kind": chance.choice(["episode", "step", "psi", "teach", "x", *wrong])}
    request = {"phrase": chance.choice([phrase, *wrong]), chance.choice(["seed", "start", "w"]): chance.choice(wrong)}
    return chance.choice(
        [
            right,
            right[:i] + odd + right[i + 1 :],
            right[:i],
            json.dumps(nearly | {"request": chance.choice([request, *wrong])}),
            "".join(chance.choices('{}[]",:truefalsnu0123456789.eE+- \\', k=chance.randrange(200))),
            chance.randbytes(chance.randrange(1, 99)) if chance.random() < 0.1 else "[" * chance.randrange(1, 60_000),
        ]
    )


async def send_all(target: Target, part: Part, texts: list[str | bytes]) -> None:
    """Send everything over a few sockets, opening another where the server closed one, as it does for bytes."""
    rest = iter(texts)

    async def hand(number: int) -> None:
        text: str | bytes | None = next(rest, None)
        while text is not None:
            try:
                async with target.open(number) as socket:
                    while text is not None:
                        await call(socket, part, text)
                        text = next(rest, None)
            except ConnectionClosed:
                part.answers["closed" if isinstance(text, bytes) else "lost"] += 1
                text = next(rest, None)

    await asyncio.gather(*(hand(number) for number in range(HANDS)))


async def request_oddly(target: Target, part: Part, number: int, chance: random.Random) -> None:
    """HTTP requests with malformed headers and wrong methods."""
    for i in range(number):
        method, path = (
            chance.choice([b"GET", b"POST", b"PUT", b"X"]),
            chance.choice([b"/", b"/api/parse", b"/%00", b"/no"]),
        )
        host = b"" if chance.random() < 0.2 else b"Host: 127.0.0.1\r\n"
        lines = (
            method + b" " + path + b" HTTP/1.1\r\nConnection: close\r\n" + host + chance.choice(HEADERS) + b"\r\n\r\n"
        )
        start = time.monotonic()
        answer = await target.send(
            i % HANDS, lines if chance.random() < 0.9 else chance.randbytes(200) + b"\r\n\r\n", 15
        )
        part.seconds.append(time.monotonic() - start)
        code = answer[9:12].decode("latin-1")
        part.answers["5xx" if code.startswith("5") else code or "silence"] += 1
        part.answers["lost"] += bool(answer) and b"nosniff" not in answer


async def hold(target: Target, part: Part, silent: int) -> None:
    """Connections that say nothing, or one byte a second; meanwhile somebody else asks for the page."""
    world = b"GET /api/world HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"

    async def drip(byte: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            reader, writer = await asyncio.open_connection("127.0.0.1", target.port, local_addr=(loopback(900), 0))
            ended = asyncio.create_task(reader.read())
            for _ in range(30):
                writer.write(byte)
                if (await asyncio.wait({ended}, timeout=1))[0]:
                    break
            part.answers["shut out" if ended.done() else "lost"] += 1
            ended.cancel()
            writer.close()

    holding = [asyncio.create_task(drip(b"" if i % 4 else b"G")) for i in range(silent)]
    for _ in range(5):
        await asyncio.sleep(0.2)
        start = time.monotonic()
        answer = await target.send(901, world)
        part.seconds.append(time.monotonic() - start)
        part.answers["page served" if b" 200 " in answer[:20] else "lost"] += 1
    await asyncio.gather(*holding, return_exceptions=True)


async def watch(target: Target, part: Part, number: int, until: float) -> None:
    """A viewer, who asks for the next episode as soon as one is there."""
    chance, frames = random.Random(number), 0
    async with target.open(1000 + number // TO_AN_ADDRESS) as socket:
        while time.monotonic() < until:
            request = asked("episode", phrase=chance.choice(PHRASES), seed=chance.randrange(2**32))
            answer = await call(socket, part, request)
            frames += len(answer.get("reply", {}).get("positions", ()))
    part.frames.append(frames)


async def sampled(target: Target, part: Part, work: Awaitable[None]) -> Part:
    """The work, with the server's memory watched meanwhile."""

    async def keep() -> None:
        while True:
            part.memory.append(target.megabytes)
            await asyncio.sleep(0.5)

    keeping = asyncio.create_task(keep())
    await work
    keeping.cancel()
    part.memory.append(target.megabytes)
    return part


async def quiet(target: Target) -> None:
    """Until the server has compiled all that it compiles in the background."""
    for _ in range(150):
        before = target.busy_seconds
        await asyncio.sleep(2)
        if target.busy_seconds - before < 0.2:
            return


async def attack(target: Target, args: argparse.Namespace) -> list[Part]:
    """One part after the other."""
    chance = random.Random(args.seed)
    await quiet(target)
    phrases = goals(args.goals, chance)
    parts: list[Part] = []

    async def add(part: Part, work: Callable[[Part], Coroutine[Any, Any, None]]) -> None:
        parts.append(await sampled(target, part, work(part)))
        print(parts[-1].row(), flush=True)

    await add(Part("1 viewer"), lambda part: watch(target, part, 0, time.monotonic() + ALONE))
    await add(Part("goals"), lambda part: send_all(target, part, [question(each, chance) for each in phrases]))
    texts = [message(chance) for _ in range(args.messages)]
    await add(Part("messages"), lambda part: send_all(target, part, texts))
    await add(Part("odd requests"), lambda part: request_oddly(target, part, args.requests, chance))
    await add(Part("silent and slow"), lambda part: hold(target, part, args.silent))
    until = time.monotonic() + args.seconds

    async def crowd(part: Part) -> None:
        await asyncio.gather(*(watch(target, part, number, until) for number in range(args.viewers)))

    await add(Part(f"{args.viewers} viewers"), crowd)
    return parts


def start(errors: Any) -> tuple[subprocess.Popen, Target]:
    """A server of our own."""
    command = [sys.executable, "-m", "cumulant", "serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert server.stdout is not None
    found = re.search(r":(\d+) ", server.stdout.readline())
    assert found, "the server does not start"
    return server, Target(int(found[1]), server.pid)


async def stop(server: subprocess.Popen, target: Target) -> int:
    """Its exit status, when it is told to stop in the middle of a computation."""
    async with target.open(0) as socket:
        await socket.send(asked("evaluate", phrase=PHRASES[0]))
        server.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(server.wait, 30)


def main() -> int:
    """Read the arguments, start a server, attack it, stop it, and say whether it held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000, help="over the socket: right, nearly right, garbage")
    parser.add_argument("--goals", type=int, default=2000, help="distinct ones, on all grids")
    parser.add_argument("--requests", type=int, default=500, help="over HTTP, malformed")
    parser.add_argument("--silent", type=int, default=140, help="connections that say little or nothing")
    parser.add_argument("--viewers", type=int, default=100, help="at once")
    parser.add_argument("--seconds", type=float, default=300, help="that they watch")
    parser.add_argument("--seed", type=int, default=0, help="of all chance")
    args = parser.parse_args()
    with tempfile.TemporaryFile("w+") as errors:
        server, target = start(errors)
        try:
            print("part | answers | 5xx or none | ms p50 | p99 | most | MB at first | halfway | at last | what")
            parts = asyncio.run(attack(target, args))
            status = asyncio.run(stop(server, target))
        finally:
            server.kill()
        errors.seek(0)
        said = errors.read()
    crowd, alone = parts[-1], parts[0]
    slowest = min(crowd.frames, default=0) / args.seconds
    print(f"frames/s: {alone.frames[0] / ALONE:.0f} for one viewer, {slowest:.1f} for the slowest of {args.viewers}")
    lines, tracebacks = len(said.splitlines()), said.count("Traceback")
    print(f"stopped with status {status}; tracebacks: {tracebacks}; lines of stderr: {lines}")
    sys.stderr.write(said[-2000:])
    return int(bool(status or said or sum(part.failures for part in parts)))


if __name__ == "__main__":
    sys.exit(main())
