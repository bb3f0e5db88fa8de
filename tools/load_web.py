"""Load `cumulant serve` on this machine, and print what it held as one JSON object.

Starts a server of its own; one viewer first, then many, each asking for the next episode as soon as it has one. A frame
is a state of an episode with all that the page shows of it.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import httpx
from websockets.asyncio.client import connect

PHRASES = ("square top left and circle right", "not (square left or circle top)", "get the circle to the middle")
WARM_UP = ("episode", "evaluate", "teach", "gif")


async def watch(address: str, until: float) -> tuple[int, list[float], int]:
    """One viewer: frames seen, seconds from each phrase to its episode, and errors."""
    frames, latencies, errors, number = 0, [], 0, 0
    async with connect(f"ws://{address}/api/socket", max_size=None) as socket:
        while time.monotonic() < until:
            request = {"phrase": random.choice(PHRASES), "seed": random.randrange(2**32)}
            asked, number = time.monotonic(), number + 1
            await socket.send(json.dumps({"id": number, "kind": "episode", "request": request}))
            answer = json.loads(await socket.recv())
            latencies.append(time.monotonic() - asked)
            errors += "reply" not in answer
            frames += len(answer.get("reply", {}).get("positions", ()))
    return frames, latencies, errors


async def sample_memory(pid: int, until: float) -> list[float]:
    """The server's resident memory in MB, every two seconds."""
    samples = []
    while time.monotonic() < until:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        samples.append(pages * 4096 / 1e6)
        await asyncio.sleep(2)
    return samples


async def load(address: str, pid: int, viewers: int, seconds: float) -> dict:
    """One viewer for five seconds, then all of them."""
    alone, latencies, _ = await watch(address, time.monotonic() + 5)
    until = time.monotonic() + seconds
    viewing = [asyncio.create_task(watch(address, until)) for _ in range(viewers)]
    memory = await sample_memory(pid, until)
    watched = [await viewer for viewer in viewing]
    everyone = sorted(latency for _, each, _ in watched for latency in each)
    return {
        "one_viewer": {
            "frames_per_second": round(alone / 5, 1),
            "first_action_ms_median": round(1000 * sorted(latencies)[len(latencies) // 2], 1),
            "first_action_ms_worst": round(1000 * max(latencies), 1),
        },
        "viewers": viewers,
        "seconds": seconds,
        "frames_per_second_of_slowest": round(min(frames for frames, _, _ in watched) / seconds, 1),
        "episodes": len(everyone),
        "first_action_ms_median": round(1000 * everyone[len(everyone) // 2], 1),
        "first_action_ms_p99": round(1000 * everyone[int(0.99 * len(everyone))], 1),
        "errors": sum(errors for _, _, errors in watched),
        "memory_mb": {"at_first": round(memory[1], 1), "halfway": round(memory[len(memory) // 2], 1)}
        | {"at_last": round(memory[-1], 1), "most": round(max(memory), 1)},
    }


def main() -> None:
    """Read the arguments, start a server, load it, stop it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    command = [sys.executable, "-m", "cumulant.commands.cli", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split("http://")[1].split()[0]
            for kind in WARM_UP:  # until all that is compiled in the background is there
                httpx.post(f"http://{address}/api/{kind}", json={"phrase": PHRASES[0]}, timeout=120)
            print(json.dumps(asyncio.run(load(address, server.pid, args.viewers, args.seconds))))
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
