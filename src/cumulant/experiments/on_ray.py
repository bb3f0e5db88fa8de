"""Work on a cluster, by Ray's tasks alone: one for each group. Folders come back as bytes, so no disk is shared."""

import contextlib
import logging
import os
import socket
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from cumulant.config import OutOfBounds, check_settings
from cumulant.experiments.archives import Archive, pack, unpack
from cumulant.experiments.engines import ON_A_GPU, Filled, InOneProgram, Report, Work, deliver, failed, in_words, making
from cumulant.storage import Unreadable

if TYPE_CHECKING:
    import ray

_OF_THE_MEMORY = 0.9  # of a GPU, which JAX takes at once; the rest is the driver's
_ANSWERS_IN = 5.0  # seconds
_LOOKS_EVERY = 1.0  # seconds, so that Ctrl+C is heard
_Packed = list[tuple[Filled, Archive]]


class NoCluster(ValueError):
    """A cluster that is not there, or that one cannot work on; the message is one clear line."""


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Ray:
    """A Ray cluster: one task for each group of trials that are one program. Workers need this package, and Ray.

    With `gpus` below 1 several tasks share a GPU, each with its part of the memory; with 0 they use CPUs alone. A task
    whose worker dies is tried again, each trial by itself, `retries` times. `prepare` is what a worker does first.

    >>> Ray("10.0.0.1:6379", gpus=0.25).together()
    16
    """

    address: str = "auto"  # Of the cluster's head, HOST:PORT; "auto" finds the one that this machine is part of.
    cpus: Annotated[float, Meta(ge=0, le=1_024)] = 1.0  # Of a task.
    gpus: Annotated[float, Meta(ge=0, le=64)] = 0.0  # Of a task.
    retries: Annotated[int, Meta(ge=0, le=100)] = 2
    in_step: InOneProgram | None = None  # Trials in one task, at most; by default one on CPUs, and several on a GPU.
    prepare: Callable[[], None] = _nothing

    def __post_init__(self) -> None:
        """Refuse what no cluster could give."""
        check_settings(self)
        if self.gpus > 1 and self.gpus % 1:
            raise OutOfBounds(f"gpus must be a part of one or a whole number, but is {self.gpus}")

    def together(self) -> int:
        """How many runs one task takes."""
        return self.in_step or (ON_A_GPU if self.gpus else 1)

    def run(self, works: Sequence[Work], out: Path, report: Report) -> None:
        """Hand out all, take in what comes back, and try again what was lost with its worker."""
        if not works:
            return
        with self.ready() as cluster, making(out) as place:
            _Errands(self, cluster, place, out, report).run(works)

    def ready(self) -> "_Connection":
        """A connection to the cluster, closed at the end. NoCluster if there is none."""
        return _Connection(self.address)


class _Connection:
    def __init__(self, address: str):
        self._address = address

    def __enter__(self) -> Any:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ModuleNotFoundError:
            raise NoCluster("sweeps on a cluster need Ray: pip install 'cumulant[ray]'") from None
        self._ray, self._was_there = ray, ray.is_initialized()
        if self._was_there:  # whoever connected may go on
            there = ray.get_runtime_context().gcs_address
            if self._address != "auto" and _by_number(self._address) != _by_number(there):
                raise NoCluster(f"this process works on the Ray cluster at {there}, not at {self._address}")
            return ray
        if self._address != "auto":
            _check_answers(self._address)
        try:
            ray.init(address=self._address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            if self._address == "auto" and isinstance(error, ConnectionError):
                start = "start one with: ray start --head"
                raise NoCluster(f"no Ray cluster runs on this machine: {start}, or give --address") from None
            raise NoCluster(f"cannot work on the Ray cluster at {self._address}: {in_words(error)}") from None
        return ray

    def __exit__(self, *exception: object) -> None:
        if not self._was_there:
            self._ray.shutdown()


def _by_number(address: str) -> str:
    """The address of the same host as a number, if its name is known here."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError, UnicodeError):
        return f"{socket.gethostbyname(host)}:{port}"
    return address


def _check_answers(address: str) -> None:
    """Ray itself would try for two minutes, and fill the screen."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise NoCluster(f"a cluster's address is HOST:PORT or auto, not {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWERS_IN).close()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NoCluster(f"no Ray cluster answers at {address}: {reason}") from None


class _Errands:
    """Tasks that are out on a cluster, and what is done as each comes back."""

    def __init__(self, settings: Ray, cluster: Any, place: Path, out: Path, report: Report):
        self._ray, self._settings = cluster, settings
        self._place, self._out, self._report = place, out, report
        # A worker does one task: the next may have another GPU, and JAX keeps the one that it began with.
        wanted = {"num_cpus": settings.cpus, "num_gpus": settings.gpus, "max_retries": 0, "max_calls": 1}
        self._task = cluster.remote(**wanted)(_on_a_worker)
        self._waiting: dict[ray.ObjectRef, tuple[Work, int]] = {}  # with how often it was tried before

    def run(self, works: Sequence[Work]) -> None:
        try:
            for work in works:
                for name in work.names:
                    self._report({"event": "submitted", "trial": name})
                self._send(work, 0)
            while self._waiting:
                done, _ = self._ray.wait(list(self._waiting), timeout=_LOOKS_EVERY)
                for reference in done:
                    self._take(reference, *self._waiting.pop(reference))
        finally:  # whoever connected before may stay so, and its tasks would go on
            for reference in self._waiting:
                with contextlib.suppress(self._ray.exceptions.RayError):  # of a cluster that is lost
                    self._ray.cancel(reference, force=True)

    def _send(self, work: Work, tries: int) -> None:
        import cumulant

        try:
            pickled = self._ray.cloudpickle.dumps(work)
        except Exception as error:  # a world may hold anything
            return self._fail(work, f"it cannot be sent to a cluster: {in_words(error)}")
        about = (cumulant.__version__, self._settings.gpus, self._settings.prepare)
        self._waiting[self._task.remote(pickled, *about)] = work, tries

    def _take(self, reference: Any, work: Work, tries: int) -> None:
        lost = self._ray.exceptions
        try:
            packed: _Packed = self._ray.get(reference)
        except (lost.WorkerCrashedError, lost.NodeDiedError, lost.ObjectLostError, lost.OutOfMemoryError) as error:
            return self._again(work, tries, type(error).__name__)
        except lost.RayTaskError as error:
            return self._fail(work, in_words(error.cause if isinstance(error.cause, Exception) else error))
        except lost.RayError as error:
            raise NoCluster(f"the Ray cluster is lost: {in_words(error)}") from None
        if [filled.name for filled, _ in packed] != list(work.names):  # which are paths here
            return self._fail(work, "its worker answered for other trials")
        for filled, archive in packed:
            try:
                unpack(archive, self._place / filled.name)
            except Unreadable as error:
                filled = failed(filled.name, error, self._place)  # noqa: PLW2901
            deliver(filled, self._place, self._out, self._report)

    def _again(self, work: Work, tries: int, reason: str) -> None:
        """Each trial by itself from now on: if one kills its worker, it no longer takes others along."""
        if tries >= self._settings.retries:
            return self._fail(work, f"its worker died {tries + 1} times: {reason}")
        for each in work.apart():
            for name in each.names:
                self._report({"event": "retried", "trial": name, "reason": reason})
            self._send(each, tries + 1)

    def _fail(self, work: Work, reason: str) -> None:
        for name in work.names:
            deliver(failed(name, reason, self._place), self._place, self._out, self._report)


def _on_a_worker(pickled: bytes, version: str, gpus: float, prepare: Callable[[], None]) -> _Packed:
    """Do a work in a place of this machine's own, and pack what came of it."""
    import cumulant

    if cumulant.__version__ != version:
        raise RuntimeError(f"a worker has cumulant {cumulant.__version__}, and this sweep is {version}'s")
    prepare()
    if gpus:
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{_OF_THE_MEMORY * min(gpus, 1):.3f}"
    import jax

    if not gpus:
        jax.config.update("jax_platforms", "cpu")
    from ray import cloudpickle

    work: Work = cloudpickle.loads(pickled)
    with tempfile.TemporaryDirectory(prefix="cumulant-") as name:
        place, packed = Path(name), list[tuple[Filled, Archive]]()
        for filled in work.fill(place):
            try:
                packed.append((filled, pack(place / filled.name)))
            except ValueError as error:
                told = failed(filled.name, error, place)
                packed.append((told, pack(place / filled.name)))
        return packed
