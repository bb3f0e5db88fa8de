"""How a sweep is followed: a table on a terminal, plain lines in a log, JSON lines for programs."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cumulant.commands.output import print_json

if TYPE_CHECKING:
    from cumulant.sweeps.run import Swept, Trial

_SHOWN = 12  # trials in the table: those that failed, and the latest of the others
_LOOKS = {
    "skipped": "dim",
    "submitted": "yellow",
    "started": "cyan",
    "retried": "yellow",
    "finished": "green",
    "failed": "red",
}


class Following:
    """Takes what `sweep` reports, and shows it."""

    def __init__(self, trials: "Sequence[Trial]", json: bool):
        """`json` prints events as objects, one a line, and nothing else."""
        self._json, self._begun = json, time.monotonic()
        self._state = {trial.name: "waiting" for trial in trials}
        self._said: dict[str, str] = {}
        self._live: Live | None = None
        if sys.stderr.isatty() and not json:
            self._live = Live(console=Console(stderr=True), refresh_per_second=4, transient=True)

    def __enter__(self) -> "Following":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, event: dict[str, Any]) -> None:
        """One event of one trial."""
        name, what, reason = event["trial"], event["event"], event.get("reason", "")
        del self._state[name]  # so that the latest comes last
        self._state[name], self._said[name] = what, reason
        seconds = round(time.monotonic() - self._begun, 1)
        if self._json:
            print_json(event | {"seconds": seconds})
            sys.stdout.flush()
        elif self._live:
            self._live.update(self._table(), refresh=what == "failed")
        else:
            done = f"{self._done()}/{len(self._state)}"
            words = f"{what:>9} {done:>9} {seconds:8.1f} s  {name}" + (f": {reason}" if reason else "")
            print(words, file=sys.stderr, flush=True)

    def summary(self, swept: "Swept", out: Path) -> None:
        """What came of it all."""
        if self._json:
            finished, skipped = list(swept.finished), list(swept.skipped)
            return print_json({"event": "ended", "finished": finished, "skipped": skipped, "failed": swept.failed})
        before = f", {len(swept.skipped):,} before" if swept.skipped else ""
        print(f"{out}: {len(swept.finished):,} trials finished{before}, {len(swept.failed):,} failed")
        for name, reason in swept.failed.items():
            print(f"failed: {name}: {reason}", file=sys.stderr)
        print(f"Next: cumulant report {out}")

    def _done(self) -> int:
        return sum(state in ("finished", "skipped", "failed") for state in self._state.values())

    def _table(self) -> Table:
        counts = Counter(self._state.values())
        numbers = ", ".join(f"{number:,} {state}" for state, number in counts.items())
        table = Table(title=f"{self._done():,} of {len(self._state):,} trials: {numbers}", title_justify="left")
        for column in ("trial", "", "why"):
            table.add_column(column)
        failed = [name for name, state in self._state.items() if state == "failed"]
        others = [name for name, state in self._state.items() if state not in ("failed", "waiting")]
        shown = failed[-_SHOWN:]
        shown += others[max(0, len(others) - (_SHOWN - len(shown))) :]
        for name in shown:
            state = self._state[name]
            table.add_row(Text(name), Text(state, style=_LOOKS.get(state, "")), Text(self._said.get(name, "")))
        return table
