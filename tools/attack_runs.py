"""Kill runs at every file step and fill the disk at every write; print what they came to as one JSON object.

A file step makes, writes, syncs, renames or removes a file or a folder. Whatever happens at one, the run must go on
from there, lose nothing that it had saved, and end with the same bytes as a run that nothing disturbed.

Most deaths are simulated, thousands in one process: at the step an exception is raised that nothing catches, and from
then on no file operation does anything, as after SIGKILL. `--random` and `--real` send real signals to real processes.
"""

import argparse
import builtins
import contextlib
import errno
import hashlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from unittest import mock

SPRITES = ("square", "circle")


class Killed(BaseException):
    """What a simulated death raises."""


class Disk:
    """While entered, counts the file steps under a folder: at step `dies_at` the process dies, or the disk is full.

    A full disk takes no new files, folders and data from write `full_from` on, `full_for` times; it still renames and
    removes. The data of a write during which the process dies, or the disk is full, are half there.
    """

    _SIMPLE: ClassVar = ("rename", "replace", "unlink", "remove", "rmdir", "chmod", "truncate")

    def __init__(
        self,
        root: Path,
        dies_at: int = -1,
        full_from: int = -1,
        full_for: int = 1,
        die: Callable[[], None] | None = None,
        before: Callable[[], object] = lambda: None,
    ):
        """`die` is how to die, by default with Killed; what `before` returns just before the trouble is `found`."""
        self.steps = self.writes = self.refused = 0
        self.found: object = None
        self._root, self._dies_at, self._die, self._before = os.path.realpath(root), dies_at, die, before
        self._full, self._dead, self._paths = range(full_from, full_from + full_for), False, dict[int, str]()
        self._patches = contextlib.ExitStack()

    def __enter__(self) -> "Disk":
        """Take the place of the system's operations, which Python's own modules look up when they need them."""
        self._os = {name: getattr(os, name) for name in (*self._SIMPLE, "mkdir", "fsync", "open")}
        self._open = io.open
        instead = {name: self._simple(name) for name in self._SIMPLE}
        instead |= {"mkdir": self._mkdir, "fsync": self._fsync, "open": self._os_open}
        for name, function in instead.items():
            self._patches.enter_context(mock.patch.object(os, name, function))
        for module in (io, builtins):
            self._patches.enter_context(mock.patch.object(module, "open", self._file_open))
        return self

    def __exit__(self, *exception: object) -> None:
        self._patches.close()

    def step(self, path: str, takes_space: bool = False) -> None:
        """Count a step, and have happen what must."""
        if self._dead:
            raise Killed
        if not f"{path}/".startswith(f"{self._root}/"):
            return
        dies, full = self.steps == self._dies_at, takes_space and self.writes in self._full
        self.steps += 1
        self.writes += takes_space
        if dies or (full and not self.refused):
            self.found = self._unwatched(self._before)
        if dies:
            self._dead = True
            if self._die:
                self._die()
            raise Killed
        if full:
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def write(self, handle: int, data: bytes) -> int:
        """A write is a step; whatever trouble it meets, half of it is done."""
        try:
            if not self._dead:
                self.step(self._paths[handle], takes_space=True)
        except (OSError, Killed):
            os.write(handle, data[: len(data) // 2])
            raise
        if self._dead:
            raise Killed
        return os.write(handle, data)

    def _unwatched(self, function: Callable[[], object]) -> object:
        root, self._root = self._root, "\0"  # no path begins so
        try:
            return function()
        finally:
            self._root = root

    def _path(self, path: Any, folder: int | None = None) -> str:
        if isinstance(path, int):
            return self._paths.get(path, "")
        return os.path.join(self._paths.get(folder, ""), path) if folder is not None else os.path.abspath(path)

    def _simple(self, name: str) -> Callable[..., Any]:
        def operation(path: Any, *args: Any, **kwargs: Any) -> Any:
            self.step(self._path(path, kwargs.get("dir_fd")))
            return self._os[name](path, *args, **kwargs)

        return operation

    def _mkdir(self, path: Any, *args: Any, **kwargs: Any) -> None:
        if not os.path.isdir(path):
            self.step(self._path(path), takes_space=True)
        self._os["mkdir"](path, *args, **kwargs)

    def _fsync(self, handle: int) -> None:
        path = self._path(handle)
        self.step(path, takes_space=not os.path.isdir(path))  # some file systems find room for data only now
        self._os["fsync"](handle)

    def _os_open(self, path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        where = self._path(path, kwargs.get("dir_fd"))
        if flags & (os.O_WRONLY | os.O_RDWR):
            self.step(where, takes_space=not os.path.exists(where))
        handle = self._os["open"](path, flags, *args, **kwargs)
        self._paths[handle] = where
        return handle

    def _file_open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        where = self._path(file)
        if not set(mode) & set("wax+") or not f"{where}/".startswith(f"{self._root}/"):
            return self._open(file, mode, *args, **kwargs)
        kinds = {"w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND, "x": os.O_CREAT | os.O_EXCL}
        handle = file if isinstance(file, int) else self._os_open(file, os.O_WRONLY | kinds[mode[0]], 0o644)
        return _File(self, handle)


class _File:
    """A file that is written to, without a buffer: in a dead process no buffer is emptied."""

    def __init__(self, disk: Disk, handle: int):
        self._disk, self._handle, self._closed = disk, handle, False

    def write(self, data: str | bytes) -> int:
        return self._disk.write(self._handle, data.encode() if isinstance(data, str) else data)

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        return self._handle

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._handle)

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Scenario(NamedTuple):
    """Something that fills a folder, and how a user goes on with it when it was disturbed."""

    begin: Callable[[Path], object]
    go_on: Callable[[Path], object]
    results: tuple[str, ...]  # the files that must be the same in the end
    saved: Callable[[Path], float]  # how far what is safe has come: it must never go back
    old: Callable[[Path], object] = lambda folder: None  # what is there before


def is_whole(folder: Path) -> bool:
    """Whether a folder's arrays are those that its config.json vouches for."""
    try:
        told = json.loads((folder / "config.json").read_text())["sha256"]
        return hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest() == told
    except (OSError, ValueError, KeyError):
        return False


def check_unmixed(folder: Path) -> None:
    """Refuse a folder that claims to be finished, and is not: one with old arrays and a new config.json, say."""
    for config in folder.rglob("config.json"):
        hidden = any(part.startswith(".") for part in config.relative_to(folder).parts)
        if not hidden and "sha256" in json.loads(config.read_text()):
            assert is_whole(config.parent), f"{config.parent} claims to be whole"


def free_play(world: Any, settings: Any, every: float = 0.0, forced: bool = False, features: Any = None) -> Scenario:
    """A run of free play, with a checkpoint after every part; `forced`, over the library of another seed."""
    from cumulant.features.coordinates import true_features
    from cumulant.freeplay.checkpoints import finished, was_begun
    from cumulant.transfer.pretraining import pretrain

    def play(out: Path, seed: int = 0, resume: bool = False, force: bool = False) -> object:
        f = features or true_features
        return pretrain(world, settings, seed, out, f, resume, checkpoint_every=every, force=force)

    def go_on(out: Path) -> object:
        try:
            return play(out, resume=was_begun(out))
        except ValueError as error:
            if "finished run" not in str(error):
                raise
        return play(out, force=True) if forced and (out / "weights.safetensors").read_bytes() == old[0] else None

    def saved(out: Path) -> float:
        if is_whole(out):
            return float("inf") if not old or (out / "weights.safetensors").read_bytes() != old[0] else -1
        return max((int(path.name) for path in finished(out) if is_whole(path)), default=-1)

    old: list[bytes] = []

    def before(out: Path) -> None:
        if forced:
            play(out, seed=1)
            old[:] = [(out / "weights.safetensors").read_bytes()]

    results = ("weights.safetensors", "config.json", "metrics.jsonl")
    return Scenario(lambda out: play(out, force=forced), go_on, results, saved, before)


def seeing(forced: bool) -> Scenario:
    """`cumulant represent`, whose learning, judging and drawing are done beforehand; `forced`, over another encoder."""
    import equinox as eqx
    import jax

    from cumulant.commands import represent as command
    from cumulant.features import encoder as encoders
    from cumulant.features import representation
    from cumulant.features.settings import Represent
    from cumulant.storage import write_whole

    settings = Represent(latents=8, width=4, pairs=64, updates=4, batch=4, restarts=1)
    asked = command.RepresentCommand(Path(), objects=SPRITES[:1], size=16, labelled=0, json=True, settings=settings)
    encoder = representation.represent(asked.world(), settings, 0, 0)
    other = eqx.tree_at(lambda encoder: encoder.high, encoder, 2 * encoder.high)
    measures = encoders.measure(encoder, jax.random.key(0), 100)

    def draw(folder: Path, *args: object) -> None:
        for name in ("reconstructions", "traversals", "correlations"):
            write_whole(folder / f"{name}.png", b"picture" * 100)

    def run(out: Path, force: bool) -> None:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            mock.patch.object(representation, "represent", return_value=encoder),
            mock.patch.object(encoders, "measure", return_value=measures),
            mock.patch.object(command, "_draw", draw),
        ):
            replace(asked, out=out, force=force).run()

    def go_on(out: Path) -> None:
        if not is_whole(out) or (forced and eqx.tree_equal(encoders.Encoder.load(out), other)):
            run(out, force=(out / "config.json").exists())

    results = ("weights.safetensors", "config.json", "reconstructions.png")
    before = other.save if forced else lambda folder: None
    return Scenario(lambda out: run(out, forced), go_on, results, lambda out: 0.0, before)


def series() -> Scenario:
    """Three parts of a figure, one after the other, each of which keeps a library."""
    from cumulant.experiments.parts import FULL, Part, Ran, Scale, run_part
    from cumulant.experiments.run_folders import Row
    from cumulant.transfer.library import Library

    @dataclass(frozen=True)
    class Keeps(Part):
        measured: bool

        def settings(self) -> "Keeps":
            return self

        def shrunk(self) -> "Keeps":
            return self

        def run(self, name: str, scale: Scale, folder: Path) -> Ran:
            library.save(folder / "library-0")
            rows = [Row(name, "kind", "task", seed, 0, seed / 7, 16) for seed in scale.seeds]
            return Ran(rows, {}, [{"seed": 0, "disentanglement": 1.0}] if self.measured else None)

    library = Library.load()
    parts = {f"part-{i}": Keeps(i % 2 == 0) for i in range(3)}

    def run(out: Path) -> None:
        for name, part in parts.items():
            run_part(name, part, FULL, out, lambda words: None)

    results = tuple(f"runs/{name}/{file}" for name in parts for file in ("metrics.jsonl", "library-0/config.json"))
    return Scenario(run, run, (*results, "runs/part-0/measures.json"), _parts_done)


def _parts_done(out: Path) -> float:
    return float(len(list(out.glob("runs/*/config.json"))))


@contextlib.contextmanager
def quickly() -> Iterator[None]:
    """Have free play compiled once for all runs of the same settings, and not judged: only its files matter.

    Nor is anything synced, for no power is cut; that it would be is a step all the same.
    """
    import equinox as eqx

    from cumulant.freeplay import runs
    from cumulant.transfer import pretraining

    programs: dict[Any, Any] = {}
    compiled = runs.compiled

    def once(world: Any, config: Any, features: Any, *arrays: Any) -> Any:
        key = (world, config, id(features))
        if key not in programs:
            programs[key] = compiled(world, config, features, *arrays)
        return programs[key]

    with (
        mock.patch.object(os, "fsync"),
        mock.patch.object(runs, "compiled", once),
        mock.patch.object(runs, "start", eqx.filter_jit(runs.start)),
        mock.patch.object(pretraining, "_held_out_success", return_value=0.5),
    ):
        yield


class Arena:
    """A scenario and a place for it: what the undisturbed run gives, and what every disturbed one must."""

    def __init__(self, scenario: Scenario, place: Path):
        """Runs it once."""
        self.scenario, self.out, self._old = scenario, place / "run", place / "old"
        scenario.old(self._old)
        self.fresh()
        with Disk(self.out) as disk:
            scenario.begin(self.out)
        self.steps, self.writes, self.expected = disk.steps, disk.writes, self.results()

    def fresh(self) -> None:
        """The folder as it was before."""
        shutil.rmtree(self.out, ignore_errors=True)
        if self._old.exists():
            shutil.copytree(self._old, self.out)

    def results(self) -> dict[str, bytes]:
        """The files that count."""
        return {name: (self.out / name).read_bytes() for name in self.scenario.results}

    def disk(self, dies_at: int = -1, full_from: int = -1, full_for: int = 1) -> Disk:
        """A disk with some trouble, which notes how far the run had come when it began."""
        return Disk(self.out, dies_at, full_from, full_for, before=lambda: self.scenario.saved(self.out))

    def check(self, disk: Disk) -> None:
        """Nothing is mixed and nothing is lost."""
        check_unmixed(self.out)
        if isinstance(disk.found, float | int):
            assert self.scenario.saved(self.out) >= disk.found, "what was saved is lost"

    def finish(self) -> None:
        """Go on undisturbed: the end is the same, and neither a checkpoint nor half a file is left."""
        self.scenario.go_on(self.out)
        assert self.results() == self.expected, "the end is another"
        assert not list(self.out.glob("*checkpoints*")), "checkpoints are left"
        assert not list(self.out.rglob(".*.????????")), "half a file is left"

    def kill(self, *moments: int) -> bool:
        """Die at a step of the run, then at one of going on with it, and so on; whether it lived long enough to."""
        self.fresh()
        died = False
        for i, moment in enumerate(moments):
            disk = self.disk(dies_at=moment)
            try:
                with disk:
                    (self.scenario.go_on if i else self.scenario.begin)(self.out)
            except Killed:
                died = True
            self.check(disk)
        self.finish()
        return died

    def fill(self, write: int, times: int) -> str:
        """Have the disk full at a write; the line that ended the run, if one did."""
        from cumulant.commands.inputs import BadInput
        from cumulant.storage import Unwritable

        self.fresh()
        disk, said = self.disk(full_from=write, full_for=times), ""
        try:
            with disk:
                self.scenario.begin(self.out)
        except (Unwritable, BadInput) as error:
            said = str(error)
            assert len(said.splitlines()) == 1, said
        assert disk.refused, "nothing was written then"
        self.check(disk)
        self.finish()
        return said


def simulated(arena: Arena, every: int, chains: int, seed: int) -> dict[str, Any]:
    """All deaths and full disks of a scenario: how many there were. The first that goes wrong raises."""
    begun = time.monotonic()
    killed = sum(arena.kill(step) for step in range(0, arena.steps, every))
    moments = random.Random(seed)
    chained = sum(arena.kill(*(moments.randrange(arena.steps) for _ in range(4))) for _ in range(chains))
    full = {"once": 1, "for_5_writes": 5, "for_good": sys.maxsize // 2}
    ended = {
        name: sum(bool(arena.fill(write, times)) for write in range(0, arena.writes, every))
        for name, times in full.items()
    }
    return {
        "file_steps": arena.steps,
        "killed": killed,
        "killed_again_and_again": chained,
        "writes": arena.writes,
        "full": len(full) * len(range(0, arena.writes, every)),
        "full_ended_in_one_line": ended,
        "seconds": round(time.monotonic() - begun, 1),
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


COMMANDS = {
    "pretrain": "pretrain --width 8 --num-envs 4 --batch 8 --env-steps 160 --replay 160 --checkpoint-seconds 0",
    "represent": "represent --objects square --size 16 --labelled 0 --latents 8 --width 4 --pairs 64 --updates 4 "
    "--batch 4 --restarts 1",
}


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


def scenarios(updates: int) -> Iterator[tuple[str, Callable[[], Scenario]]]:
    """All of them, by name, each made when it is wanted."""
    from cumulant.freeplay.settings import FreePlay
    from cumulant.worlds.spriteworld import Spriteworld

    world = Spriteworld(SPRITES, max_steps=10)
    settings = FreePlay(width=8, num_envs=4, batch=8, env_steps=4 * updates, replay=160)
    yield "pretrain", lambda: free_play(world, settings)
    yield "pretrain --force", lambda: free_play(world, settings, forced=True)
    yield "represent", lambda: seeing(False)
    yield "represent --force", lambda: seeing(True)
    yield "series", series


def main() -> None:
    """Read the options, attack, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=40, help="of a run of free play; 1 to 40 parts")
    parser.add_argument("--every", type=int, default=1, help="simulate a death at every step, or at every so many")
    parser.add_argument("--chains", type=int, default=50, help="runs that die four times in a row, at random steps")
    parser.add_argument("--only", nargs="*", help="scenarios, by name; none: only real deaths")
    parser.add_argument("--random", type=int, default=0, help="real deaths of `pretrain`, at random moments")
    parser.add_argument("--real", type=int, default=0, help="real deaths of `pretrain`, at so many of its file steps")
    parser.add_argument("--represent", type=int, default=0, help="real deaths of `represent`, half at random moments")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    given = parser.parse_args()
    if not (1 <= given.updates <= 1000 and given.every >= 1 and min(given.random, given.real, given.chains) >= 0):
        parser.error("a number is out of range")
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="attack-runs-") as name:
        place = Path(name)
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(place / "compiled"))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.03")
        if given.random or given.real:  # first: a process that has used JAX must not fork
            told["pretrain, really"] = real("pretrain", place, given.real, given.random, given.seed)
        if half := given.represent // 2:
            told["represent, really"] = real("represent", place, given.represent - half, half, given.seed)
        for number, (what, scenario) in enumerate(scenarios(given.updates)):
            if given.only is None or what in given.only:
                folder = place / str(number)
                folder.mkdir()
                with quickly():
                    told[what] = simulated(Arena(scenario(), folder), given.every, given.chains, given.seed)
                print(f"{what}: {json.dumps(told[what])}", file=sys.stderr, flush=True)
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
