"""Output of commands: JSON for programs, tables for people."""

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

_LOG_WIDTH = 160
_NARROW = 24  # characters of a column that is never narrower than what it holds
_BORDERS = 3  # of a column

if TYPE_CHECKING:
    from cumulant.transfer.evaluation import Success


@contextlib.contextmanager
def doing(what: str, hushed: bool) -> Iterator[None]:
    """Show on stderr what takes a while.

    Args:
        what: What is being done, in a few words.
        hushed: Show nothing. Otherwise a terminal shows it as long as it takes, and a log gets a line.

    """
    if hushed:
        yield
    elif sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(what):
            yield
    else:
        print(f"{what} ...", file=sys.stderr, flush=True)
        yield


def on_terminal(what: str, hushed: bool) -> contextlib.AbstractContextManager[None]:
    """Return `doing` for a terminal alone: a log need not hold what may still be refused."""
    return doing(what, hushed or not sys.stderr.isatty())


def print_json(report: dict[str, Any]) -> None:
    """Print one JSON object, in one line."""
    print(json.dumps(report, allow_nan=False))


def print_table(title: str, columns: list[str], rows: list[list[str]], together: int = 1) -> None:
    """Print a table as wide as the terminal, or as a log can hold.

    What is too wide goes on below, under its first column again, and nothing is ever cut off: two rows that differ look
    different.

    Args:
        title: What stands above the table.
        columns: Their heads.
        rows: Cells, one for each column.
        together: The last columns stay side by side in groups of so many.

    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    console = Console() if sys.stdout.isatty() else Console(width=_LOG_WIDTH)
    every = [list(cells) for cells in zip(columns, *rows, strict=True)]
    wide = [max(map(cell_len, cells)) for cells in every]
    least = [_least(cells, (console.width - 1) // 2 - _BORDERS) for cells in every]
    for number, part in enumerate(_beside(least, console.width, together)):
        wrapped = sum(wide[i] + _BORDERS for i in part) >= console.width
        table = Table(title=None if number else title, title_justify="left", show_lines=wrapped)
        for i in part:
            table.add_column(columns[i], overflow="fold", no_wrap=wide[i] <= least[i], min_width=least[i])
        for row in rows:
            table.add_row(*(row[i] for i in part))
        console.print(table)


def _least(cells: list[str], room: int) -> int:
    """Return how narrow a column may be: a long text is wrapped, and its words stay whole where they can."""
    from rich.cells import cell_len

    words = [cell_len(word) for cell in cells for word in cell.split()]
    return min(max(map(cell_len, cells)), max(_NARROW, min(room, max(words, default=0))))


def _beside(least: list[int], room: int, together: int) -> Iterator[list[int]]:
    """Yield the columns that stand beside each other; the first stands before each such part."""
    columns, first = len(least), 1 + (len(least) - 1) % together
    part, taken = [0], 1 + least[0] + _BORDERS
    for group in [range(1, first), *(range(i, i + together) for i in range(first, columns, together))]:
        needed = sum(least[i] + _BORDERS for i in group)
        if len(part) > 1 and taken + needed > room:
            yield part
            part, taken = [0], 1 + least[0] + _BORDERS
        part, taken = [*part, *group], taken + needed
    yield part


def print_markdown(text: str) -> None:
    """Print Markdown, laid out on a terminal; in a log as it is."""
    if not sys.stdout.isatty():
        return print(text)
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


def as_json(results: "dict[str, dict[str, Success]]") -> dict[str, Any]:
    """Return success by method and class, as JSON holds it."""
    from msgspec.structs import asdict

    def plain(success: "Success") -> dict[str, Any]:
        return {name: value for name, value in asdict(success).items() if name != "violated" or value is not None}

    return {name: {c: plain(success) for c, success in by_class.items()} for name, by_class in results.items()}


def rate_and_steps(success: "Success") -> tuple[str, str]:
    """Return a rate with its interval, and the mean steps, where a failure counts as the limit, for a table."""
    low, high = success.ci95
    steps = "–" if success.steps_or_limit is None else f"{success.steps_or_limit:.1f}"
    return f"{success.success:.3f} [{low:.3f}, {high:.3f}]", steps
