"""What commands print: JSON for programs, tables for people."""

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cumulant.transfer.evaluation import Success


@contextlib.contextmanager
def doing(what: str, hushed: bool) -> Iterator[None]:
    """Say on stderr what takes a while: on a terminal as long as it takes, in a log in a line; hushed, not at all."""
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
    """The same where somebody watches: a log need not hold what may still be refused."""
    return doing(what, hushed or not sys.stderr.isatty())


def print_json(report: dict[str, Any]) -> None:
    """One JSON object, and nothing else."""
    print(json.dumps(report, allow_nan=False))


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table as wide as the terminal, or as a log can hold."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    console = Console() if sys.stdout.isatty() else Console(width=160)
    console.print(table)


def print_markdown(text: str) -> None:
    """Markdown, laid out on a terminal; in a log as it is."""
    if not sys.stdout.isatty():
        return print(text)
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


def as_json(results: "dict[str, dict[str, Success]]") -> dict[str, Any]:
    """Success by method and class, as JSON holds it."""
    return {name: {c: _shown(success) for c, success in by_class.items()} for name, by_class in results.items()}


def _shown(success: "Success") -> dict[str, Any]:
    return {name: value for name, value in success._asdict().items() if name != "violated" or value is not None}


def rate_and_steps(success: "Success") -> tuple[str, str]:
    """A rate with its interval, and the mean steps, as a table shows them."""
    low, high = success.ci95
    steps = "–" if success.mean_steps is None else f"{success.mean_steps:.1f}"
    return f"{success.success:.3f} [{low:.3f}, {high:.3f}]", steps
