"""The command `cumulant`, and `python -m cumulant`. Ctrl+C while it is still loading shows no traceback.

Nothing heavy is imported here, so that this comes first.
"""

import contextlib
import importlib
import io
import os
import signal
import sys
from types import FrameType

_STOPPED = 128 + signal.SIGINT  # the exit status of whatever Ctrl+C ends; SIGTERM, left to the system, gives 143


def main() -> int:
    """Run the command that the arguments name, and return its exit status: 130 if Ctrl+C ends it, which is quiet."""
    _open_streams()
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # `nohup`, say, has it ignored
        return _run()
    signal.signal(signal.SIGINT, _interrupt)
    try:
        status = _run()
    except KeyboardInterrupt:
        status = _STOPPED
    finally:
        signal.signal(signal.SIGINT, _leave)  # what Python and JAX tidy up at the end may take a moment
    if status == _STOPPED:  # JAX may still be compiling, in a thread of its own, which crashes as Python takes JAX down
        _leave()
    return status


def _run() -> int:
    return importlib.import_module("cumulant.commands.cli").main()


def _open_streams() -> None:
    """Write to nowhere where a stream was closed; replace characters that the stream's encoding lacks."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (for as long as the process lives)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or leave at once during an import, which may swallow or print the exception."""
    importing = frame
    while importing is not None:
        if importing.f_globals.get("__name__") == "importlib._bootstrap":
            _leave()
        importing = importing.f_back
    raise KeyboardInterrupt


def _leave(*signalled: object) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # closed, or just being written to
            stream.flush()
    os._exit(_STOPPED)


if __name__ == "__main__":
    sys.exit(main())
