"""The part `server` of `fuzz.py`: random requests and messages to the page's server, some connections silent.

It answers whatever it is sent with a status below 500, or hangs up properly; it says nothing on stderr, and its memory
stays flat. This needs Linux, for the server's memory and for several addresses of one machine.
"""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from fuzz_commands import COMMAND, HANGS, Fuzz

WARM = 100  # requests after which the server has compiled what it may be asked for, and its memory is watched
GROWTH = 150e6  # bytes that it may grow by in the second half of what follows
PHRASES = ("square top left and circle right", "not (square left or circle top)", "square x 2/7 then circle y 1,3/5")
KINDS = ("parse", "episode", "evaluate", "step", "teach", "psi", "world", "x")
ODD: list[Any] = [True, -1, 2**64, 1.5, None, "x" * 3000, [[]], {"a": {}}, "\0", "\u202e", 1e308]
HEADERS = (
    b"Origin: http://[",
    b"Host: [",
    b"Host: a b",
    b"X: \0",
    b"Content-Length: x",
    b"Range: \xff",
    b"Cookie: \xff",
)


def _request(rng: random.Random) -> dict[str, Any]:
    """Return a request that is right, or nearly."""
    request: dict[str, Any] = {"phrase": rng.choice(PHRASES), "seed": rng.randrange(2**32)}
    while rng.random() < 0.5:
        request[rng.choice(("phrase", "seed", "start", "w", "method", "steps", "stage", "after"))] = rng.choice(ODD)
    return request


def _message(rng: random.Random) -> str | bytes:
    """Return a message for the socket of any quality: right, nearly right, garbage."""
    call = {"id": 1, "kind": rng.choice(KINDS), "request": _request(rng)}
    if rng.random() < 0.2:
        call[rng.choice(list(call))] = rng.choice(ODD)
    text = json.dumps(call)
    i, odd = rng.randrange(len(text)), rng.choice(["true", '"', "{", "1e999", "\0", "\u2028", "-1", "[]"])
    broken = (text[:i] + odd + text[i + 1 :], text[:i], "[" * rng.randrange(1, 60_000), rng.randbytes(20))
    return text if rng.random() < 0.7 else rng.choice(broken)


def _bytes(rng: random.Random, port: int) -> bytes:
    """Return an HTTP request with a wrong method, path, header or body."""
    method, path = (
        rng.choice((b"GET", b"POST", b"PUT", b"X")),
        rng.choice(("", "%00", "no", *(f"api/{k}" for k in KINDS))),
    )
    body = json.dumps(_request(rng)).encode()[: rng.choice((None, None, rng.randrange(40)))]
    head = [b"%s /%s HTTP/1.1" % (method, path.encode()), b"Connection: close", b"Content-Length: %d" % len(body)]
    head += [b"Content-Type: application/json"] * (rng.random() < 0.8) + [b"Host: 127.0.0.1:%d" % port] * (
        rng.random() < 0.9
    )
    head += [rng.choice(HEADERS)] * (rng.random() < 0.3)
    return rng.randbytes(99) + b"\r\n\r\n" if rng.random() < 0.05 else b"\r\n".join([*head, b"", body])


def _connected(fuzz: Fuzz, port: int) -> socket.socket:
    """Return a connection from a random address of this machine, for a server may limit each."""
    source = (f"127.0.0.{fuzz.rng.randrange(2, 250)}", 0)
    return socket.create_connection(("127.0.0.1", port), HANGS, source)


def _talk(fuzz: Fuzz, port: int) -> None:
    """Send some messages over a socket: each is answered, or the server hangs up properly."""
    with connect(f"ws://127.0.0.1:{port}/api/socket", sock=_connected(fuzz, port), max_size=None) as talk:
        for _ in range(fuzz.rng.randrange(1, 20)):
            message = _message(fuzz.rng)
            try:
                talk.send(message)
                answer = json.loads(talk.recv(timeout=HANGS))
                fuzz.check("reply" in answer or "problem" in answer, f"{message[:200]!r}: {answer}")
                fuzz.tried["messages: " + ("answered" if "reply" in answer else "refused")] += 1
            except ConnectionClosed as closed:
                code = closed.rcvd.code if closed.rcvd else 1006
                fuzz.tried["messages: closed"] += 1
                proper = (1003, 1006, 1007) if isinstance(message, bytes) else (1001, 1008, 1009, 1013)
                return fuzz.check(code in proper, f"{message[:200]!r}: closed with {code}")


def _ask(fuzz: Fuzz, port: int) -> None:
    """Send bytes that are more or less HTTP: whatever comes back is no fault of the server's own."""
    request = _bytes(fuzz.rng, port)
    with _connected(fuzz, port) as plain:
        plain.sendall(request)
        answer = http.client.HTTPResponse(plain)
        with contextlib.suppress(ConnectionError, http.client.HTTPException):  # it hung up, or did not speak HTTP
            answer.begin()
            fuzz.check(answer.status < 500, f"{request[:300]!r}: status {answer.status}")
            fuzz.tried[f"requests: {answer.status}"] += 1
            return
    fuzz.tried["requests: closed"] += 1


def server(fuzz: Fuzz) -> None:
    """Send a server of its own random requests and messages, some connections silent; then stop it."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([*COMMAND, "serve", "--port", "0"], stdout=-1, stderr=errors, text=True)
        try:
            assert process.stdout
            found = re.search(r":(\d+)", process.stdout.readline())
            assert found, "the server does not start"
            port, memory, silent = int(found[1]), list[float](), list[socket.socket]()
            for number in fuzz.cases():
                if number == WARM:
                    _wait_until_idle(process.pid)
                    memory.clear()
                if number % 10 == 0 and len(silent) < 20:
                    silent.append(_connected(fuzz, port))  # and nothing is said on it
                (_talk if number % 2 else _ask)(fuzz, port)
                memory.append(_resident(process.pid))
            for each in silent:
                each.close()
            growth = memory[-1] - memory[len(memory) // 2]
            fuzz.check(number < WARM or growth < GROWTH, f"memory grew by {growth / 1e6:.0f} MB in the second half")
            process.send_signal(signal.SIGTERM)
            status = process.wait(HANGS)
            fuzz.check(status in (0, -signal.SIGTERM, 128 + signal.SIGTERM), f"stopped with status {status}")
        finally:
            process.kill()
            process.communicate()
        errors.seek(0)
        fuzz.check(not (said := errors.read()), f"stderr: {said[-600:]}")
        print(f"server's memory: {memory[0] / 1e6:.0f} MB at first, {memory[-1] / 1e6:.0f} MB at last")


def _resident(pid: int) -> float:
    """Return the bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))


def _wait_until_idle(pid: int) -> None:
    """Wait until a server has compiled all that it compiles in the background."""
    before, now = -1.0, 0.0
    while now - before > 0.2:
        time.sleep(2)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        before, now = now, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
