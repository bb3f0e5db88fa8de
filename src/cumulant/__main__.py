"""The command `cumulant`, and `python -m cumulant`. Whoever stops it while it is still loading sees no traceback.

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
    """Run the command that the arguments name; the exit status. Ctrl+C ends it quietly, from its first moment on."""
    _have_streams()
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # `nohup`, say, has it ignored
        return _run()
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _swallowed
    try:
        status = _run()
    except KeyboardInterrupt:
        status = _STOPPED
    finally:
        signal.signal(signal.SIGINT, _leave)  # what Python and JAX tidy up at the end may take a moment
    if status == _STOPPED:  # JAX may still be compiling, in a thread of its own, which crashes as Python takes JAX down
        _leave_with_all_said()
    return status


def _run() -> int:
    return importlib.import_module("cumulant.commands.cli").main()


def _have_streams() -> None:
    """Have somewhere to write to, even where a stream was closed; what its encoding lacks is no error."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (for as long as the process lives)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, so that things are tidied up; but an import swallows exceptions, or prints them."""
    if _is_importing(frame):
        _leave(number, frame)
    raise KeyboardInterrupt


def _swallowed(what: "sys.UnraisableHookArgs") -> None:
    """An exception where none can be raised, as while garbage is collected: Ctrl+C still ends the command."""
    if issubclass(what.exc_type, KeyboardInterrupt):
        os._exit(_STOPPED)
    sys.__unraisablehook__(what)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def _leave_with_all_said() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(_STOPPED)


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(_STOPPED)


if __name__ == "__main__":
    sys.exit(main())
