"""The command line: it reads a command, runs it, and turns bad input into one line and exit status 2."""

import contextlib
import inspect
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any

import tyro
from tyro.conf import DisallowNone, PositionalMetavarFromFieldName, subcommand

import cumulant
from cumulant.commands.demo import Demo
from cumulant.commands.evaluate import Evaluate
from cumulant.commands.explain import Explain
from cumulant.commands.inputs import BadInput
from cumulant.commands.inspect import Inspect
from cumulant.commands.output import print_json
from cumulant.commands.pretrain import Pretrain
from cumulant.commands.programs import keep_programs
from cumulant.commands.report import Report
from cumulant.commands.represent import RepresentCommand
from cumulant.commands.serve import Serve
from cumulant.commands.solve import Solve
from cumulant.commands.sweep import Sweep
from cumulant.commands.worlds import Check, Worlds, fold_world
from cumulant.config import OutOfBounds

_DESCRIPTION = """Play freely once, with no reward; then act on any goal at once, in words or as a reward.

Start here:
  cumulant demo
  cumulant solve "circle top left and square not left" --gif mine.gif
  cumulant serve

cumulant COMMAND --help says more; cumulant --version tells the versions and the device. For completion in your shell:
  cumulant --tyro-write-completion bash ~/.local/share/bash-completion/completions/cumulant

Exit status: 0 all went well; 1 a trial of a sweep or a part of a figure failed, and is named; 2 bad input, with what
is wrong on stderr; 130 stopped by Ctrl+C, and saved where there was something to save.
"""

_COMMANDS: dict[str, type] = {
    "demo": Demo,
    "solve": Solve,
    "serve": Serve,
    "explain": Explain,
    "represent": RepresentCommand,
    "pretrain": Pretrain,
    "evaluate": Evaluate,
    "sweep": Sweep,
    "report": Report,
    "inspect": Inspect,
    "worlds": Worlds,
    "check": Check,
}
_OF_THE_PAPER = ("reproduce", "bench")
_OF_SEVERAL = ("--library", "--objects", "--only", "--grid")  # options that take several values


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: The arguments; by default those of the process.

    Returns:
        The exit status: 0, or 2 for bad input, with one line on stderr.

    Raises:
        SystemExit: tyro shows help (status 0) or an option that it cannot read (status 2), or a command ends early.

    """
    given = sys.argv[1:] if argv is None else list(argv)
    try:
        if given[:1] == ["--version"] and given[1:] in ([], ["--json"]):
            _tell_version(as_json=len(given) > 1)
        else:
            command = read_command(given)
            keep_programs()
            command.run()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough, as `head` does
        _discard_unwritable()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        said = _said_of(error)
        if said is None:
            raise
        with contextlib.suppress(OSError):  # nobody can be told
            print(f"cumulant: {said}", file=sys.stderr)
        _discard_unwritable()
        return 2
    return 0


def read_command(argv: Sequence[str]) -> Any:
    """Return the command that the arguments name, with its options as fields."""
    _check_options(argv)
    return tyro.cli(
        _commands(argv),
        prog="cumulant",
        description=_DESCRIPTION,
        args=fold_world(argv),
        config=(DisallowNone, PositionalMetavarFromFieldName),
    )


def _commands(argv: Sequence[str]) -> Any:
    """Return the union of all commands, each with the first line of its docstring; the one that is named, with all."""
    named = argv[0] if argv else ""
    commands = _COMMANDS if named in _COMMANDS else _COMMANDS | dict(_added_commands())
    if named in _OF_THE_PAPER and named not in commands:
        raise BadInput(f"{named} comes with the package cumulant-paper: pip install ./paper, in a checkout")
    union: Any = None
    for name, command in commands.items():
        about = inspect.getdoc(command) or ""
        shown = " ".join(about.split()) if name == named else about.partition("\n")[0]
        told: Any = Annotated[command, subcommand(name, description=shown)]
        union = told if union is None else union | told
    return union


def _added_commands() -> Iterator[tuple[str, type]]:
    """Import the commands that other packages add by the entry point "cumulant.commands"."""
    from importlib import metadata  # which takes a while, as the search does

    for added in metadata.entry_points(group="cumulant.commands"):
        yield added.name, added.load()


def _check_options(argv: Sequence[str]) -> None:
    """Refuse what tyro would take, or show, as it is.

    An option may be empty, as an unset variable of a script leaves it, or be overruled by a second one; a word may hold
    what moves a terminal's cursor.
    """
    for word in argv:
        if not word.translate({ord("\t"): " ", ord("\n"): " "}).isprintable():
            raise BadInput(f"{word} holds characters that cannot be shown")
    options = [(*word.partition("="), after) for word, after in pairwise([*argv, "--"]) if word.startswith("--")]
    for option, equals, value, after in options:
        ends = not after or (option in _OF_SEVERAL and after.startswith("--"))
        if not value if equals else ends:
            raise BadInput(f"{option} is empty")
    for option in _OF_SEVERAL:
        if [each[0] for each in options].count(option) > 1:  # tyro would take the last, and say nothing
            raise BadInput(f"{option} is given more than once: write it once, and after it all that it takes")


def _tell_version(as_json: bool) -> None:
    """Print the versions, and the device that JAX computes on."""
    import jax

    try:
        device = jax.devices()[0].device_kind
    except RuntimeError as error:  # a device was asked for that is not there
        raise BadInput(f"jax {jax.__version__} finds no device: {str(error).partition(chr(10))[0]}") from None
    if as_json:
        print_json({"cumulant": cumulant.__version__, "jax": jax.__version__, "device": device})
    else:
        print(f"cumulant {cumulant.__version__}, jax {jax.__version__} on {device}")


def _discard_unwritable() -> None:
    """Forget what a stream holds and cannot write, as on a full disk: Python would try again at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _said_of(error: Exception) -> str | None:
    """Return the message for an error that is the input's fault; None for a fault of ours."""
    if (pointed := getattr(error, "pointed", None)) is not None:  # a LanguageError, told without importing its module
        return "\n".join(_printable(line) for line in str(pointed).split("\n"))
    # Told without importing their modules: without these nothing was read, written, or stepped on the host.
    storage, failures = (sys.modules.get(f"cumulant.{name}") for name in ("storage", "worlds.failures"))
    kinds = (storage.Unreadable, storage.Unwritable) if storage else ()
    kinds += (failures.WorldFailed,) if failures else ()
    if isinstance(error, (*kinds, BadInput, OutOfBounds, OSError)):
        return _printable(str(error))
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):  # NumPy's, or JAX's
        return _printable(f"there is not enough memory: {str(error).partition(chr(10))[0] or 'ask for less'}")
    return None


def _printable(words: str) -> str:
    """Replace what could move a terminal's cursor, which a file or an argument may hold."""
    return "".join(c if c.isprintable() else "?" for c in words)
