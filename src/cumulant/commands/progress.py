"""Progress of a run: a bar on a terminal, plain lines in a log, TensorBoard on request."""

import contextlib
import resource
import sys
import time
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from cumulant.storage import Unwritable

_LINES = 5  # in a log
_AT_LEAST_EVERY = 60.0  # seconds


class Reporter:
    """A listener to `pretrain` and `represent`, which remembers the times and the last success for a summary."""

    def __init__(self, updates: int, quiet: bool, tensorboard: Path | None = None):
        """Begin.

        Args:
            updates: Of the whole run.
            quiet: Show nothing at all.
            tensorboard: A folder for events.

        """
        self.compile_seconds = self.train_seconds = 0.0
        self.success: float | None = None
        self._updates, self._quiet, self._lines = updates, quiet, 0
        self._told, self._told_unsaved = time.monotonic(), False
        self._bar: Progress | None = None
        if sys.stderr.isatty() and not quiet:
            columns = (BarColumn(), TextColumn("{task.completed:,}/{task.total:,} updates {task.description}"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self._board = _Board(tensorboard) if tensorboard else None

    def __enter__(self) -> "Reporter":
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task("compiling", total=self._updates)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar:
            self._bar.stop()
        if self._board:
            self._board.close()

    def __call__(self, metrics: dict[str, Any]) -> None:
        """Show a report; its "event" is busy, compiled, progress, damaged, unsaved or finished."""
        match metrics["event"]:
            case "busy":
                if self._bar:
                    self._bar.update(self._task, description=metrics["message"])
                elif not self._quiet:
                    print(f"{metrics['message']} ...", file=sys.stderr, flush=True)
            case "compiled":
                self.compile_seconds = metrics["seconds"]
                if self._bar:
                    self._bar.update(self._task, description="learning")
            case "damaged":
                print(f"cumulant: {metrics['message']}; trying the one before", file=sys.stderr)
            case "unsaved" if not self._told_unsaved:  # once: a disk stays full for a while
                self._told_unsaved = True
                print(f"cumulant: {metrics['message']}", file=sys.stderr)
            case "progress":
                self.train_seconds = metrics["seconds"]
                self.success = metrics.get("success", self.success)
                self._show(metrics)

    def summary(self) -> dict[str, Any]:
        """Return seconds, peak bytes of this process (host, and device where it has its own), and the last success."""
        device = jax.local_devices()[0].memory_stats() or {}
        return {
            "compile_s": self.compile_seconds,
            "train_s": self.train_seconds,
            "peak_host_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            "peak_device_bytes": device.get("peak_bytes_in_use"),
            "success": self.success,
        }

    def _is_due(self, metrics: dict[str, Any]) -> bool:
        """Return True if a log gets a line now: at every fifth of the run, and every minute."""
        due, now = _LINES * metrics["update"] // self._updates, time.monotonic()
        if due <= self._lines and now - self._told < _AT_LEAST_EVERY:
            return False
        self._lines, self._told = due, now
        return True

    def _show(self, metrics: dict[str, Any]) -> None:
        words = f"loss {metrics['loss']:.2e}"
        if self.success is not None:
            words += f"  held-out success {self.success:.2f}"
        if self._bar:
            self._bar.update(self._task, completed=metrics["update"], description=words)
        elif not self._quiet and self._is_due(metrics):
            print(
                f"{metrics['update']:>9,}/{self._updates:,} updates  {metrics['seconds']:6.1f} s  {words}",
                file=sys.stderr,
            )
        if self._board:
            judged = {"held_out_success": metrics["success"]} if "success" in metrics else {}
            self._board.add(metrics["update"], {"loss": metrics["loss"]} | judged)


class _Board:
    """TensorBoard's events, each written when it is told: a thread that met a full disk would take the run along."""

    def __init__(self, folder: Path):
        """Begin a file of events.

        Raises:
            Unwritable: The folder cannot be used.
            ModuleNotFoundError: The extra is not installed.

        """
        try:
            from tensorboardX.event_file_writer import EventsWriter
        except ModuleNotFoundError:
            raise ModuleNotFoundError("TensorBoard events need pip install 'cumulant[tensorboard]'") from None
        self._folder, self._writer = folder, None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = EventsWriter(str(folder / "events"))
            self._writer.flush()
        except OSError as error:
            self.close()
            raise Unwritable(f"cannot write {folder}: {error.strerror or error}") from None

    def add(self, step: int, values: dict[str, float]) -> None:
        """Write the values of a step; a failure is printed once, and the run goes on without TensorBoard."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        if self._writer is None:
            return
        try:
            for name, value in values.items():
                self._writer.write_event(Event(wall_time=time.time(), step=step, summary=scalar(name, value)))
            self._writer.flush()
        except OSError as error:
            self.close()
            words = f"cannot write {self._folder}: {error.strerror or error}; going on without TensorBoard"
            print(f"cumulant: {words}", file=sys.stderr)

    def close(self) -> None:
        """Write no more events."""
        if self._writer is not None:
            with contextlib.suppress(OSError):  # all was flushed before, or has failed before
                self._writer.close()
        self._writer = None
