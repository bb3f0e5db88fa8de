"""The cache of compiled programs, in the user's cache folder: most of a short command's time is compiling."""

import contextlib
import os
import sys
import warnings
from pathlib import Path

_WORTH_KEEPING = "0.05"  # seconds of compiling
_MOST_BYTES = 2**29  # beyond which the oldest are removed
_MOSTLY = 0.8  # of that: what then stays


def keep_programs() -> None:
    """Have JAX keep what it compiles, unless its own settings say where, or that it should not.

    It must be called before JAX compiles anything. Where nothing can be kept, nothing is, and nothing is said.
    """
    settings = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE")
    if any(name in os.environ for name in settings):
        return
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: there is no home
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cumulant"
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            return
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
        seconds = os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", _WORTH_KEEPING)
        if jax := sys.modules.get("jax"):  # which has read the environment: on a cluster's workers
            jax.config.update("jax_compilation_cache_dir", str(folder))
            jax.config.update("jax_persistent_cache_min_compile_time_secs", float(seconds))
        # What a killed process half wrote, or a full disk has no room for, is compiled anew.
        warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
        _prune(folder)


def forget_programs() -> None:
    """Have JAX compile everything anew, to measure that. It must be called before JAX is imported."""
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"


def _prune(folder: Path) -> None:
    """Remove the oldest programs, if there are too many."""
    found = [(about, path) for path in folder.iterdir() if path.is_file() and (about := _about(path))]
    size = sum(about.st_size for about, _ in found)
    if size <= _MOST_BYTES:
        return
    for about, path in sorted(found, key=lambda each: each[0].st_mtime):
        path.unlink(missing_ok=True)
        size -= about.st_size
        if size <= _MOSTLY * _MOST_BYTES:
            return


def _about(path: Path) -> os.stat_result | None:
    """Return a file's status; None if another command has just removed it."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat()
    return None
