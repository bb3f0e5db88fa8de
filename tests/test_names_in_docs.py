"""What the documentation names is there: modules and their functions, files, links, commands and their options."""

import ast
import contextlib
import importlib
import io
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from cumulant.commands.cli import main
from cumulant.features.encoder import Encoder
from cumulant.transfer.library import Library
from cumulant.worlds.host import HostWorld
from cumulant.worlds.spriteworld import Spriteworld

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
IMPORTED_FROM = [ROOT / top for top in ("src", "paper/src", "paper", "tools", "tests")]
SOURCES = sorted({path for top in IMPORTED_FROM for path in top.rglob("*.py")})
TOPS = ("src", "paper", "docs", "tests", "tools", "examples", "results")  # a path that starts so is one of ours
INSTANCES = {"library": (Library,), "world": (Spriteworld, HostWorld), "encoder": (Encoder,)}  # as the docs call them
MADE_UP = ("package.module", "pkg.mod", "world.FIELD", "free-play.sh")  # which the reader fills in
_OF_OTHERS = {"--extra", "--jobs", "--nodes", "--ntasks-per-node", "--np"}  # options of other programs
_NAME = re.compile(r"(?<![\w./:\"'-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?![\w/])")
_WORD = re.compile(r"[A-Za-z]+(?:_[a-z]+)+(?=\(|$)|[A-Z][a-z]+(?:[A-Z][a-z]+)+(?=\(|$)")
_PATH = re.compile(r"(?<![\w.:/-])[\w-]+(?:/[\w.-]+)*\.(?:py|sh)\b|(?<![\w.:/-])(?:" + "|".join(TOPS) + r")/[\w./-]*\w")
_FILE = re.compile(r"\.(?:cff|csv|gif|html|ipynb|jsonl?|lock|md|npz|png|py|safetensors|sh|toml|txt|yml)$")
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
_COMMAND = re.compile(r"(?:^|(?<!from)[\s(=])cumulant ([a-z]+)((?: [^|;#]*)?)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def pieces(page: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield code spans and lines of code blocks: the number of the line, the code, whether it is of a block."""
    text = page.read_text()
    for block in re.finditer(r"^```.*?^```", text, re.MULTILINE | re.DOTALL):
        first = text.count("\n", 0, block.start()) + 1
        joined = block[0].replace("\\\n", "  ")  # what is typed over several lines
        yield from ((first + i, line, True) for i, line in enumerate(joined.split("\n")))
    prose = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    for span in re.finditer(r"`([^`]+)`", prose):
        yield prose.count("\n", 0, span.start()) + 1, " ".join(span[1].split()), False


@cache
def modules() -> dict[str, Path]:
    """The modules of ours by their dotted names."""
    found = {}
    for path in SOURCES:
        top = next(top for top in IMPORTED_FROM if path.is_relative_to(top))
        parts = path.relative_to(top).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def written() -> tuple[dict[str, list[str]], set[str]]:
    """Return the modules that define a class of each name, and every word of our code."""
    classes, words = {}, set()
    for name, path in modules().items():
        text = path.read_text()
        words |= set(re.findall(r"\w+", text))
        if path.is_relative_to(ROOT / "src") or path.is_relative_to(ROOT / "paper"):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef):
                    classes.setdefault(node.name, []).append(name)
    return classes, words


def has(thing: object, names: list[str]) -> bool:
    """Return whether attributes lead on from a module or class; a field without a default ends the way."""
    for name in names:
        if isinstance(thing, type) and any(name in getattr(kind, "__annotations__", {}) for kind in thing.__mro__):
            return True
        if not hasattr(thing, name):
            return False
        thing = getattr(thing, name)
    return True


def exists(name: str) -> bool:
    """Return whether a dotted name leads somewhere: to ours, by any end of a module's name, or to a library's."""
    parts, (classes, _) = name.split("."), written()
    for cut in range(len(parts), 0, -1):
        end = ".".join(parts[:cut])
        for module in (each for each in modules() if f".{each}".endswith(f".{end}")):
            if cut == len(parts) or has(importlib.import_module(module), parts[cut:]):
                return True
    kinds = [getattr(importlib.import_module(module), parts[0], None) for module in classes.get(parts[0], ())]
    if any(has(kind, parts[1:]) for kind in (*kinds, *INSTANCES.get(parts[0], ()))):
        return True
    ours = parts[0] in INSTANCES or parts[0] in classes or any(parts[0] in each.split(".") for each in modules())
    return not ours and find_spec(parts[0]) is not None


def is_file(path: str) -> bool:
    """Return whether a path is there, from the root or by its end."""
    return (ROOT / path).exists() or any(f"/{each.relative_to(ROOT)}".endswith(f"/{path}") for each in SOURCES)


@cache
def help_of(*command: str) -> str:
    """Return the help of a command; of none, that of them all."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        main([*command, "--help"])
    return said.getvalue()


def commands() -> list[str]:
    """Return the names of all commands."""
    return re.search(r"\{([\w,-]+)\}", help_of())[1].split(",")


def options(command: str) -> set[str]:
    """Return the options of a command, as its help has them."""
    return set(_OPTION.findall(help_of(command)))


@cache
def any_option() -> set[str]:
    """Return the options of all commands, of our tools, and of other programs that the docs speak of."""
    tools = "".join(path.read_text() for path in (ROOT / "tools").glob("*.*"))
    return set().union(*map(options, commands()), _OPTION.findall(tools), _OF_OTHERS)


def stale_in(page: Path) -> Iterator[tuple[int, str]]:
    """Yield what a page names that is not there."""
    _, words = written()
    for number, line in enumerate(page.read_text().splitlines(), 1):
        yield from ((number, link) for link in _LINK.findall(line) if not (page.parent / link).exists())
    for number, code, in_block in pieces(page):
        yield from (
            (number, path) for path in _PATH.findall(code) if not in_block and path not in MADE_UP and not is_file(path)
        )
        names = [name for name in _NAME.findall(code) if not in_block or name.startswith("cumulant.")]
        names = [name for name in names if not _FILE.search(name) and not name.startswith(MADE_UP)]
        yield from ((number, name) for name in names if not exists(name))
        if not in_block and (word := _WORD.match(code)) and word[0] not in words and not word[0].endswith(("_x", "_y")):
            yield number, word[0]
        for command, given in _COMMAND.findall(code):
            if command not in commands():
                yield number, f"cumulant {command}"
                continue
            wrong = set(_OPTION.findall(given)) - options(command)
            yield from ((number, f"cumulant {command} {each}") for each in wrong if not each.startswith("--world."))
        if not in_block and code.startswith("--"):
            yield from ((number, each) for each in _OPTION.findall(code) if each not in any_option())


def test_names_in_docs_exist():
    stale = [
        f"{page.relative_to(ROOT)}:{number} {name}" for page in PAGES for number, name in sorted(set(stale_in(page)))
    ]
    assert not stale, "the documentation names what is not there:\n" + "\n".join(stale)
