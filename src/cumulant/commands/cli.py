"""The command line: reads a command, runs it, and turns bad input into one clear line and exit status 2."""

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import pairwise, takewhile
from typing import Annotated, Any, get_args

import tyro
from tyro.conf import subcommand

import cumulant
from cumulant.commands.bench import Bench
from cumulant.commands.demo import Demo
from cumulant.commands.evaluate import Evaluate
from cumulant.commands.explain import Explain
from cumulant.commands.inputs import BadInput
from cumulant.commands.inspect import Inspect
from cumulant.commands.pretrain import Pretrain
from cumulant.commands.programs import keep_programs
from cumulant.commands.report import Report
from cumulant.commands.represent import RepresentCommand
from cumulant.commands.reproduce import Reproduce
from cumulant.commands.serve import Serve
from cumulant.commands.solve import Solve
from cumulant.commands.sweep import Sweep
from cumulant.commands.worlds import Check, Worlds, fold_world
from cumulant.config import PRESETS, OutOfBounds

_DESCRIPTION = """Play freely once, with no reward; then act on any goal at once, in words or as a reward.

Start here:
  cumulant demo
  cumulant solve "circle top left and square not left" --gif mine.gif
  cumulant serve

cumulant COMMAND --help says more; cumulant --version tells the version. For completion in your shell:
  cumulant --tyro-write-completion bash ~/.local/share/bash-completion/completions/cumulant

Exit status: 0 all went well; 1 a trial of a sweep or a part of a figure failed, and is named; 2 bad input, said in one
line; 130 stopped by Ctrl+C, and saved where there was something to save.
"""

_OF_A_PHRASE = ("solve", "explain")  # commands that take one
_OF_A_WORLD = ("check", "pretrain", "represent")  # commands that take no words, but a world
_PLAINLY = {  # what tyro says, and what a person would
    r"^Error parsing (--\S+): invalid literal for int\(\) with base 10: ": r"\1 must be a whole number, but is ",
    r"^Error parsing (--\S+): could not convert string to float: ": r"\1 must be a number, but is ",
    r"^Error parsing (--\S+): ": r"\1: ",
    r"Unrecognized or misplaced options: ": "Unrecognized options: ",
    r" \(applied to [^)]*\)": "",
    r" Arguments are applied to the directly preceding .*": "",
}
_OF_SEVERAL = ("--library", "--objects", "--only", "--grid")  # options that take several values


def _commands(argv: Sequence[str]) -> Any:
    """All commands. The defaults of `pretrain` are those of the preset that the arguments name."""
    preset = PRESETS.get(_value_of("--preset", argv), PRESETS["cpu"])
    pretrain = Pretrain(settings=preset)
    return (
        Annotated[Demo, subcommand("demo")]
        | Annotated[Solve, subcommand("solve")]
        | Annotated[Serve, subcommand("serve")]
        | Annotated[Explain, subcommand("explain")]
        | Annotated[RepresentCommand, subcommand("represent")]
        | Annotated[Pretrain, subcommand("pretrain", default=pretrain)]
        | Annotated[Evaluate, subcommand("evaluate")]
        | Annotated[Sweep, subcommand("sweep")]
        | Annotated[Report, subcommand("report")]
        | Annotated[Inspect, subcommand("inspect")]
        | Annotated[Worlds, subcommand("worlds")]
        | Annotated[Check, subcommand("check")]
        | Annotated[Reproduce, subcommand("reproduce")]
        | Annotated[Bench, subcommand("bench")]
    )


def _value_of(option: str, argv: Sequence[str]) -> str:
    """What an option is given as, "--preset fast" or "--preset=fast"; empty if it is not given."""
    given = [
        after if word == option else word.partition("=")[2]
        for word, after in pairwise([*argv, ""])
        if word.partition("=")[0] == option
    ]
    return given[-1] if given else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0, or 2 for bad input, said in one line on stderr."""
    given = sys.argv[1:] if argv is None else list(argv)
    try:
        if given == ["--version"]:
            print(f"cumulant {cumulant.__version__}")
        else:
            command = _read_command(given)
            keep_programs()
            command.run()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough, as `head` does
        _let_go()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        said = _said_of(error)
        if said is None:
            raise
        with contextlib.suppress(OSError):  # nobody can be told
            print(f"cumulant: {said}", file=sys.stderr)
        _let_go()
        return 2
    return 0


def _let_go() -> None:
    """Forget what a stream holds and cannot write, as on a full disk: Python would try again at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _said_of(error: Exception) -> str | None:
    """What there is to say of an error that is the input's fault; None for one that is ours."""
    if (pointed := getattr(error, "pointed", None)) is not None:  # a LanguageError, told without importing its module
        return "\n".join(_harmless(line) for line in str(pointed).split("\n"))
    # Told without importing their modules: without these nothing was read, written, or stepped on the host.
    storage, failures = (sys.modules.get(f"cumulant.{name}") for name in ("storage", "worlds.failures"))
    kinds = (storage.Unreadable, storage.Unwritable) if storage else ()
    kinds += (failures.WorldFailed,) if failures else ()
    if isinstance(error, (*kinds, BadInput, OutOfBounds, OSError)):
        return _harmless(str(error))
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):  # NumPy's, or JAX's
        return _harmless(f"there is not enough memory: {str(error).partition(chr(10))[0] or 'ask for less'}")
    return None


def _harmless(words: str) -> str:
    """One line: nothing that a file or an argument holds may move a terminal's cursor."""
    return "".join(c if c.isprintable() else "?" for c in words)


def _read_command(argv: Sequence[str]) -> Any:
    """Parse the arguments; what tyro says in a box over several lines, we say in one."""
    if (empty := _empty_option(argv)) is not None:
        raise BadInput(f"{empty} is empty")
    for option in _OF_SEVERAL:
        after = [following for word, following in pairwise([*argv, "--"]) if word.partition("=")[0] == option]
        if option in argv and after[0].startswith("--"):
            raise BadInput(f"{option} is empty")
        if len(after) > 1:  # the parser would take the last, and say nothing
            raise BadInput(f"{option} is given more than once: write it once, and after it all that it takes")
    said, argv = io.StringIO(), fold_world(argv)
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                _commands(argv),
                prog="cumulant",
                description=_DESCRIPTION,
                args=argv,
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        if (meant := _meant(argv)) is not None:
            raise BadInput(meant) from None
        raise BadInput(_plainly(said.getvalue(), argv)) from None


def _meant(argv: Sequence[str]) -> str | None:
    """What somebody may have meant whose arguments cannot be read; None if it is not plain."""
    names = [get_args(each)[1].name for each in get_args(_commands(argv))]
    command, *words = [*takewhile(lambda word: not word.startswith("-"), argv)] or [""]
    if command and command not in names:
        near = get_close_matches(command, names, 1)
        return f"there is no command {command}: " + (f"did you mean {near[0]}?" if near else ", ".join(names))
    if command in _OF_A_PHRASE and len(words) > 1:
        return f'put the phrase in quotes: cumulant {command} "{" ".join(words)}"'
    if command in _OF_A_WORLD and words:
        return f"{words[0]} stands alone: did you mean cumulant {command} --world {words[0]}?"
    return None


def _plainly(box: str, argv: Sequence[str]) -> str:
    """What tyro's box says, in one line of our own words, and where there is more to read."""
    words = _first_block(box)
    words = re.sub(r"^Error parsing (?!-)\S+: ", "", words)  # tyro's own name of the settings
    for theirs, ours in _PLAINLY.items():
        words = re.sub(theirs, ours, words)
    command = argv[0] if argv and not argv[0].startswith("-") else ""
    wrong = next((word for word in argv if word.startswith("--") and word in words), "")
    if words.startswith("Unrecognized") and (near := get_close_matches(wrong, list(_suggested(box, command)), 1)):
        words += f"; did you mean {near[0]}?"
    return f"{words} (see {' '.join(filter(None, ('cumulant', command, '--help')))})"


def _suggested(box: str, command: str) -> Iterator[str]:
    """The options of a command that tyro suggests in its box, which is drawn with lines or, in ASCII, without."""
    option = ""
    for line in box.splitlines():
        words = line.strip("│ ")
        if re.match(r"--\w", words):
            option = words.split()[0]
        elif words == f"in cumulant {command} --help":
            yield option


def _empty_option(argv: Sequence[str]) -> str | None:
    """The first option that is given as an empty text, as an unset variable of a script gives it; None if none is."""
    for word, after in pairwise([*argv, "nothing"]):
        option, given, value = word.partition("=")
        if word.startswith("--") and (value == "" if given else after == ""):
            return option
    return None


def _first_block(box: str) -> str:
    """What tyro's box says above its first rule, in one line. Without Unicode, the title too stands above a rule."""
    blocks = [""]
    for line in box.splitlines():
        text = line.strip("│|+ ")
        if line.startswith(("╭", "╰")) or not text:
            continue
        if set(text) <= set("─-"):
            blocks.append("")
        else:
            blocks[-1] += f" {text}"
    return blocks[0 if "╭" in box else min(1, len(blocks) - 1)].strip()
