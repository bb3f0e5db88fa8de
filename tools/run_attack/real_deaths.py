"""Real signals to real processes: a command is killed at its file steps and at random moments, then gone on with."""

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from run_attack.disk import Disk
from run_attack.wholeness import check_unmixed, is_whole

COMMANDS = {
    "pretrain": "pretrain --width 8 --num-envs 4 --batch 8 --env-steps 160 --replay 160 --checkpoint-seconds 0",
    "represent": "represent --objects square --size 16 --labelled 0 --latents 8 --width 4 --pairs 64 --updates 4 "
    "--batch 4 --restarts 1",
}


def in_child(work: Callable[[], object], log: Path, after: float | None = None) -> int:
    """Do something in a process of its own; kill it after some seconds. Its exit status, negative if a signal's."""
    child = os.fork()  # safe: JAX, once imported, starts no thread before its first array
    if not child:
        status = 1
        try:
            handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            status = int(work() or 0)  # type: ignore[call-overload]
        finally:
            os._exit(status)
    if after is not None:
        time.sleep(after)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def real(command: str, place: Path, at_steps: int, moments: int, seed: int) -> dict[str, Any]:
    """SIGKILL a command at some of its file steps, spread evenly, and at random moments; then go on with it."""
    import cumulant.commands.progress
    import cumulant.features.representation
    import cumulant.transfer.pretraining  # noqa: F401  (imported before the forks, for all of them)
    from cumulant.commands.cli import main

    out, log, begun = place / "run", place / "log", time.monotonic()
    names = ("weights.safetensors", "config.json") + (("metrics.jsonl",) if command == "pretrain" else ())

    def run(dies_at: int = -1, after: float | None = None) -> int:
        again = (out / ".lock").exists() and command == "pretrain"
        args = [*COMMANDS[command].split(), "--out", str(out), *(["--resume"] if again else [])]

        def work() -> int:
            disk = Disk(out, dies_at, die=lambda: os.kill(os.getpid(), signal.SIGKILL))
            with disk if after is None else contextlib.nullcontext():
                status = main(args)
            (place / "steps").write_text(str(disk.steps))
            return status

        return in_child(work, log, after)

    def results() -> dict[str, bytes]:
        return {name: (out / name).read_bytes() for name in names}

    def end() -> None:
        status = run() if not is_whole(out) or (out / ".lock").exists() else 0
        words = log.read_text().strip().splitlines()
        assert status == 0 or (status == 2 and len(words) == 1 and is_whole(out)), log.read_text()
        assert results() == expected, "the end is another"
        shutil.rmtree(out)

    assert run() == 0, log.read_text()
    expected, steps = results(), int((place / "steps").read_text())
    shutil.rmtree(out)
    started = time.monotonic()
    run()
    seconds, chosen = time.monotonic() - started, random.Random(seed)
    shutil.rmtree(out)
    at = sorted({i * steps // at_steps for i in range(at_steps)}) if at_steps else []
    for step in at:
        assert run(step) == -signal.SIGKILL, log.read_text()
        check_unmixed(out)
        end()
    killed = 0
    while killed < moments:
        killed += run(after=chosen.uniform(0, seconds)) == -signal.SIGKILL
        check_unmixed(out)
        if is_whole(out) or chosen.random() < 0.5:  # or it is killed again
            end()
    if out.exists():
        end()
    took = {"run_seconds": round(seconds, 2), "seconds": round(time.monotonic() - begun, 1)}
    return {"file_steps": steps, "killed_at_steps": len(at), "killed_at_random": killed} | took
