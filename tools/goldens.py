"""Record what Cumulant does, and compare it after a change that should keep behaviour.

    python tools/goldens.py record before.npz     # in the old checkout
    python tools/goldens.py compare before.npz    # in the new one, on the same machine and in the same environment

Three things are recorded, all through public entrances: the actions of 30 phrases, plans and rewards × 16 seeds, the
replies of the page's API, and the JSON of the command line. An action may differ only where the values of both, which
are printed, are less than 1e-5 apart; numbers in JSON likewise.
"""

import contextlib
import io
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import cumulant
from cumulant.__main__ import main as command_line

CLOSE = 1e-5
SEEDS = 16
PHRASES = """\
agent left
agent top right
square bottom
circle top left
square top left and circle bottom right
square top left or circle bottom right
not (square left or circle top)
circle top left and square not left
agent left or square top
square x 2,3/7 y 1/7
agent x 2/5 or circle y 1/5
square left and circle left and agent right
square centre and circle middle
square x 1/9 y 9/9 and circle x 9/9 y 1/9
square not top left and circle right
square left then circle right
keep square left then agent top without agent right
agent left then agent right then agent left
square top without agent left
keep circle bottom then square bottom
square top left then circle bottom right without square bottom
agent x 1/2 then agent x 2/2 without agent y 2/2
keep square left and circle left then agent right
""".splitlines()
REWARDS: dict[str, Callable[[Any], Any]] = {
    "agent right": lambda state: (state.agent[0] > 2 / 3) * 1.0,
    "square top": lambda state: (state.objects[0, 1] > 2 / 3) * 1.0,
    "circle low and left": lambda state: ((state.objects[1] < 1 / 3).all()) * 5.0,
    "agent near the middle": lambda state: -abs(state.agent[0] - 0.5),
    "square left or circle top": lambda state: (state.objects[0, 0] < 1 / 3) + 2.0 * (state.objects[1, 1] > 2 / 3),
    "square right, agent not": lambda state: (state.objects[0, 0] > 2 / 3) - 0.5 * (state.agent[0] > 2 / 3),
    "all to the top": lambda state: ((state.agent[1] > 2 / 3) & (state.objects[:, 1] > 2 / 3).all()) * 1.0,
}
COMMANDS = (
    "explain not~(square~left~or~circle~top) --json",
    "explain keep~square~left~then~agent~top~without~agent~right --json",
    "solve circle~top~left~and~square~not~left --episodes 50 --json",
    "solve square~top~left --gpi plain --episodes 50 --seed 7 --json",
    "solve keep~square~left~then~agent~top~without~agent~right --episodes 50 --json",
    "solve --reward goldens:right_of_the_middle --budget 500 --episodes 50 --json",
    "evaluate --episodes 8 --tasks-per-class 1 --json",
    "evaluate --suite plans --episodes 8 --tasks-per-class 1 --json",
    "evaluate --few-shot 500 --episodes 8 --tasks-per-class 1 --json",
    "inspect --starts 0 --json",
    "inspect --starts 4 --json --out INSPECT",
    "worlds --json",
    "check --json",
)
PHRASE, PLAN = "square top left and circle right", "keep square left then agent top without agent right"
START = [0.5, 0.5, 0.1, 0.5, 0.5, 0.5]
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("parse", {"phrase": phrase}) for phrase in (PHRASE, PLAN, "sqare left", "square above the circle", "")),
    *(("episode", {"phrase": phrase, "seed": seed}) for phrase in (PHRASE, PLAN, PHRASES[9]) for seed in (0, 5)),
    ("episode", {"phrase": PHRASE, "seed": 3, "method": "plain"}),
    ("episode", {"phrase": PHRASE, "seed": 3, "method": "oracle"}),
    ("episode", {"phrase": PLAN, "seed": 3, "method": "oracle"}),
    ("episode", {"phrase": PHRASE, "seed": 3, "method": "random"}),
    ("episode", {"phrase": PHRASE, "start": START, "seed": 2}),
    ("episode", {"phrase": f"{PHRASE} then agent left", "start": START, "stage": 1}),
    ("episode", {"phrase": "agent left", "seed": 4, "after": [{"phrase": "agent right", "steps": 6}]}),
    ("episode", {"phrase": "agent left", "seed": 4, "after": [{"phrase": "agent right", "steps": 200}]}),
    ("step", {"phrase": PHRASE, "positions": START, "action": 2}),
    ("step", {"phrase": PLAN, "positions": START, "action": 3, "stage": 1}),
    ("evaluate", {"phrase": PHRASE, "seed": 0}),
    ("evaluate", {"phrase": PLAN, "seed": 1}),
    ("evaluate", {"phrase": PHRASE, "seed": 0, "method": "oracle"}),
    ("evaluate", {"phrase": PHRASE, "seed": 0, "method": "random"}),
    ("evaluate", {"phrase": PHRASE, "seed": 0, "method": "plain"}),
    ("teach", {"phrase": "square left", "seed": 0}),
    ("teach", {"phrase": "agent top or circle x 2/7", "seed": 1}),
    ("psi", {"positions": START, "action": 1}),
    ("psi", {"episode": {"phrase": PHRASE, "seed": 1}, "step": 3, "action": 0}),
    ("frames", {"phrase": PHRASE, "seed": 1}),
)


def right_of_the_middle(obs: Any) -> Any:
    """A reward of an observation, for the command line."""
    return obs[0] > 0.5


def episodes(library: Any, goal: Any, policy: Any) -> dict[str, np.ndarray]:
    """The episodes of 16 seeds: observations [seeds, t + 1, k], actions [seeds, t] with -1 after the end, success."""
    keys = jax.vmap(jax.random.key)(np.arange(SEEDS, dtype=np.uint32))
    world = library.world
    played = jax.jit(jax.vmap(lambda key: cumulant.play(world, policy, goal, key)))(keys)
    steps, actions = np.asarray(played.steps), np.array(played.actions)
    actions[np.arange(actions.shape[1]) >= steps[:, None]] = -1
    seen = jax.vmap(jax.vmap(world.observe))(played.states)
    longest = int(steps.max())
    return {
        "actions": actions[:, :longest].astype(np.int8),
        "seen": np.asarray(seen)[:, : longest + 1],
        "success": np.asarray(played.success),
    }


def all_episodes(library: Any) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The episodes of every phrase, plan and reward."""
    for phrase in PHRASES:
        yield phrase, episodes(library, library.goal(phrase), library.policy(phrase))
    for name, reward in REWARDS.items():
        w = library.learn_reward(reward, jax.random.key(1), budget=1_000)
        found = episodes(library, lambda state, reward=reward: reward(state) > 0.5, library.policy(w))
        yield f"reward: {name}", found | {"w": np.asarray(w)}


def replies() -> Iterator[tuple[str, Any]]:
    """The API's replies, of a server in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "cumulant", "serve", "--port", address.rpartition(":")[2]]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield "world", _asked(f"{address}/api/world")
        for name, request in REQUESTS:
            yield f"{name} {json.dumps(request)}", _asked(f"{address}/api/{name}", request)
    finally:
        server.terminate()
        server.wait()


def _asked(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    for _ in range(600):
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            if refusal.code not in (429, 503):  # it may be warming up
                return {"status": refusal.code, "said": json.load(refusal)}
        except urllib.error.URLError:
            pass
        time.sleep(0.5)
    raise TimeoutError(url)


def outputs() -> Iterator[tuple[str, Any]]:
    """What commands print with --json."""
    sys.path.insert(0, str(Path(__file__).parent))
    with tempfile.TemporaryDirectory() as folder:
        for line in COMMANDS:
            argv = [word.replace("~", " ").replace("INSPECT", folder) for word in line.split()]
            printed = io.StringIO()
            sys.argv = ["cumulant", *argv]
            with contextlib.redirect_stdout(printed):
                status = command_line()
            yield line, {"status": status, "said": json.loads(printed.getvalue())}


def compared(old: Any, new: Any, where: str) -> Iterator[str]:
    """Say where two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key in old and key in new:
                yield from compared(old[key], new[key], f"{where}.{key}")
            else:
                yield f"{where}: {key!r} is {'gone' if key in old else 'new'}"
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where}: {len(old)} entries are {len(new)}"
        for i, (a, b) in enumerate(zip(old, new, strict=False)):
            yield from compared(a, b, f"{where}[{i}]")
    elif isinstance(old, float) and isinstance(new, float | int):
        apart = 1.01e-4 if ".thoughts" in where else CLOSE  # these are rounded to four places
        if not math.isclose(old, new, rel_tol=0, abs_tol=apart):
            yield f"{where}: {old} is {new}"
    elif old != new:
        yield f"{where}: {str(old)[:100]} is {str(new)[:100]}"


def compared_episodes(library: Any, name: str, old: dict[str, Any], new: dict[str, Any]) -> tuple[list[str], int]:
    """Say where episodes differ, and count the differences between actions of equal value."""
    said, equal_values = [], 0
    if "w" in old and not np.allclose(old["w"], new["w"], rtol=0, atol=CLOSE):
        said.append(f"{name}: weights differ by {np.abs(old['w'] - new['w']).max():.2g}")
    for seed in range(SEEDS):
        a, b = old["actions"][seed], new["actions"][seed]
        length = min(len(a), len(b))
        differ = np.flatnonzero(a[:length] != b[:length])
        if not len(differ):
            continue
        t = int(differ[0])
        psi = np.asarray(library.network(library.features(old["seen"][seed, t])))  # [i, j, h, a]: feature i's own
        own = np.einsum("ijja->ija", psi) if psi.ndim == 4 else np.einsum("ijija->ija", psi)
        gap = float(np.abs(own[..., a[t]] - own[..., b[t]]).min())
        line = f"{name}, seed {seed}, step {t}: action {a[t]} is {b[t]}; values apart by at least {gap:.2g}"
        if gap < CLOSE:
            equal_values += 1
            print(f"equal values: {line}")
        else:
            said.append(line)
    return said, equal_values


def told(named: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    """Collect what is named, with a line on stderr for each."""
    collected = {}
    for name, value in named:
        print(f"{time.monotonic():.0f} s: {name}", file=sys.stderr)
        collected[name] = value
    return collected


def main() -> int:
    """Record or compare."""
    what, path = sys.argv[1], Path(sys.argv[2])
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    library = cumulant.Library.load()
    parts: dict[str, Any] = {"replies": told(replies()), "outputs": told(outputs())}
    played = told(all_episodes(library))
    if what == "record":
        arrays = {f"{name}|{key}": leaf for name, each in played.items() for key, leaf in each.items()}
        np.savez_compressed(path, **(arrays | {"json": np.array(json.dumps(parts))}))
        print(f"{path}: {len(played)} goals × {SEEDS} seeds, {len(parts['replies'])} replies, {len(COMMANDS)} outputs")
        return 0
    before = np.load(path)
    known = json.loads(str(before["json"]))
    said = [line for part in parts for line in compared(known[part], parts[part], part)]
    ties = 0
    for name, new in played.items():
        old = {key: before[f"{name}|{key}"] for key in new}
        lines, equal = compared_episodes(library, name, old, new)
        said, ties = said + lines, ties + equal
    print("\n".join(said))
    steps = sum(int((each["actions"] >= 0).sum()) for each in played.values())
    counts = f"{len(parts['replies'])} replies, {len(COMMANDS)} outputs"
    print(f"{len(played)} goals × {SEEDS} seeds, {steps:,} actions, {counts}")
    print(f"differences: {len(said)}; actions of equal value: {ties}")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
