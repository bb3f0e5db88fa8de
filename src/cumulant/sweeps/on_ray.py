"""Jobs on a cluster, by Ray's tasks alone: one for each job. Folders come back as archives, so no disk is shared."""

import contextlib
import io
import logging
import os
import socket
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from cumulant.config import OutOfBounds, check_settings
from cumulant.sweeps.experiments import ON_A_GPU, Filled, InOneProgram, Job, Report, failed, fill, in_words

_OF_THE_MEMORY = 0.9  # of a GPU, which JAX takes at once; the rest is the driver's
_ANSWERS_IN = 5.0  # seconds
_LOOKS_EVERY = 1.0  # seconds, so that Ctrl+C is heard


class NoCluster(ValueError):
    """A cluster that is not there, or that one cannot work on; the message is one clear line."""


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Ray:
    """A Ray cluster: one task for each group of trials that are one program. Workers need this package, and Ray.

    With `gpus` below 1 several tasks share a GPU, each with its part of the memory; with 0 they use CPUs alone.
    `prepare` is what a worker does first.

    >>> Ray("10.0.0.1:6379", gpus=0.25).together()
    16
    """

    address: str = "auto"  # Of the cluster's head, HOST:PORT; "auto" finds the one that this machine is part of.
    cpus: Annotated[float, Meta(ge=0, le=1_024)] = 1.0  # Of a task.
    gpus: Annotated[float, Meta(ge=0, le=64)] = 0.0  # Of a task.
    retries: Annotated[int, Meta(ge=0, le=100)] = 2  # Of a task whose worker died.
    in_step: InOneProgram | None = None  # Trials in one task, at most; by default one on CPUs, and several on a GPU.
    prepare: Callable[[], None] = _nothing

    def __post_init__(self) -> None:
        """Refuse what no cluster could give."""
        check_settings(self)
        if self.gpus > 1 and self.gpus % 1:
            raise OutOfBounds(f"gpus must be a part of one or a whole number, but is {self.gpus}")

    def together(self) -> int:
        """Return how many trials one task takes."""
        return self.in_step or (ON_A_GPU if self.gpus else 1)

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Connect to the cluster, and disconnect at the end; NoCluster if there is none.

        A process that is connected already stays so.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ModuleNotFoundError:
            raise NoCluster("sweeps on a cluster need Ray: pip install 'cumulant[ray]'") from None
        if ray.is_initialized():
            there = ray.get_runtime_context().gcs_address
            if self.address not in ("auto", there):
                raise NoCluster(f"this process works on the Ray cluster at {there}, not at {self.address}")
            yield
            return
        self._check_answers()
        try:
            ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            if self.address == "auto" and isinstance(error, ConnectionError):
                start = "start one with: ray start --head"
                raise NoCluster(f"no Ray cluster runs on this machine: {start}, or give --address") from None
            raise NoCluster(f"cannot work on the Ray cluster at {self.address}: {in_words(error)}") from None
        try:
            yield
        finally:
            ray.shutdown()

    def _check_answers(self) -> None:
        """NoCluster if nobody listens: Ray itself tries for more than three minutes, and fills the screen."""
        host, _, port = self.address.rpartition(":")
        if self.address == "auto":
            return
        if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise NoCluster(f"a cluster's address is HOST:PORT or auto, not {self.address!r}")
        try:
            socket.create_connection((host, int(port)), timeout=_ANSWERS_IN).close()
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise NoCluster(f"no Ray cluster answers at {self.address}: {reason}") from None

    def run(self, jobs: Sequence[Job], place: Path, report: Report) -> Iterator[Filled]:
        """Hand out all jobs, and take in what comes back. Ray runs the job of a dead worker again, as a whole."""
        import ray

        import cumulant

        # A worker does one task: the next may have another GPU, and JAX keeps the one that it began with.
        wanted = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=self.retries, max_calls=1)
        task = wanted(_on_a_worker)
        waiting: dict[Any, Job] = {}
        try:
            for job in jobs:
                try:
                    pickled = ray.cloudpickle.dumps(job)
                except Exception as error:  # a world may hold anything
                    yield from _failed(job, f"it cannot be sent to a cluster: {in_words(error)}", place)
                else:
                    waiting[task.remote(pickled, cumulant.__version__, self.gpus, self.prepare)] = job
            while waiting:
                done, _ = ray.wait(list(waiting), timeout=_LOOKS_EVERY)
                for reference in done:
                    yield from self._taken(reference, waiting.pop(reference), place)
        finally:  # a process that was connected before may stay so, and its tasks would go on
            for reference in waiting:
                with contextlib.suppress(ray.exceptions.RayError):  # of a cluster that is lost
                    ray.cancel(reference, force=True)

    def _taken(self, reference: Any, job: Job, place: Path) -> Iterator[Filled]:
        from ray import exceptions, get

        try:
            came: list[tuple[str, bytes]] = get(reference)
        except (exceptions.WorkerCrashedError, exceptions.NodeDiedError, exceptions.OutOfMemoryError) as error:
            reason = f"its worker died {self.retries + 1} times: {type(error).__name__}"
            yield from _failed(job, reason, place)
        except exceptions.RayTaskError as error:
            yield from _failed(job, in_words(error.cause if isinstance(error.cause, Exception) else error), place)
        except exceptions.RayError as error:
            raise NoCluster(f"the Ray cluster is lost: {in_words(error)}") from None
        else:
            for experiment, (failure, archive) in zip(job, came, strict=True):
                with zipfile.ZipFile(io.BytesIO(archive)) as files:
                    files.extractall(place / experiment.name)
                yield Filled(experiment.name, failure)


def _failed(job: Job, reason: str, place: Path) -> Iterator[Filled]:
    for experiment in job:
        yield failed(experiment.name, reason, place)


def _on_a_worker(pickled: bytes, version: str, gpus: float, prepare: Callable[[], None]) -> list[tuple[str, bytes]]:
    """Do a job in a place of this machine's own; return the failure, if any, and the folder of each experiment."""
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

    job: Job = cloudpickle.loads(pickled)
    with tempfile.TemporaryDirectory(prefix="cumulant-") as name:
        place = Path(name)
        failures = dict(fill(job, place))
        return [(failures[each.name], _zipped(place / each.name)) for each in job]


def _zipped(folder: Path) -> bytes:
    block = io.BytesIO()
    with zipfile.ZipFile(block, "w") as files:
        for path in sorted(folder.rglob("*")):
            files.write(path, path.relative_to(folder))
    return block.getvalue()
