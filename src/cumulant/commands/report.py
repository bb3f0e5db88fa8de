"""`cumulant report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from tyro.conf import Positional

from cumulant.commands.inputs import BadInput, Flag, usable_files
from cumulant.commands.output import on_terminal, print_json, print_table

if TYPE_CHECKING:
    from cumulant.sweeps.reports import SweepReport
    from cumulant.sweeps.statistics import Point


@dataclass(frozen=True)
class Report:
    """Summarise a sweep: success, learning curves, best settings.

    Writes report.json and report.html, one page that holds all it needs, to the sweep's folder.

    Try: cumulant report my-sweep
    """

    folder: Positional[Path] = Path("my-sweep")  # Of the sweep.
    json: Flag = False  # One JSON object on stdout, and nothing else.

    def run(self) -> None:
        """Read, tell, write."""
        with on_terminal("reading", self.json):
            from cumulant.storage import Unreadable, write_json, write_whole
            from cumulant.sweeps.report_page import page
            from cumulant.sweeps.reports import as_plain, summarise_sweep

            data, picture = self.folder / "report.json", self.folder / "report.html"
            try:
                report = summarise_sweep(self.folder)
            except Unreadable as error:
                raise BadInput(str(error)) from None
            usable_files(data, picture)
        plain = as_plain(report)
        write_json(data, plain)
        with on_terminal("drawing", self.json):
            write_whole(picture, page(report).encode())
        if self.json:
            return print_json(plain)
        _tell(report)
        print(f"Written to {picture} and {data}.")


def _tell(report: "SweepReport") -> None:
    from cumulant.sweeps.engines import printable

    def shown(words: list[str]) -> list[str]:
        return [escape(printable(each)) for each in words]

    for line in dict.fromkeys(line for each in report.settings for line in each.overall):
        judged = [each for each in report.settings if line in each.overall]
        kinds = dict.fromkeys(kind for each in judged for kind in each.success[line])
        rows = [
            [each.label, str(len(each.seeds)), _cell(each.overall[line])]
            + [_cell(each.success[line].get(kind)) for kind in kinds]
            for each in judged
        ]
        title = f"Success, {printable(line)}, with 95 % intervals"
        print_table(escape(title), shown(["settings", "seeds", "all tasks", *kinds]), [shown(row) for row in rows])
    for best in report.best:
        print(f"Best, {printable(best.line)}: {best.label}, {_cell(best.success)}, {best.chosen_on}.")
        if best.not_told_apart:
            print(f"Its interval does not tell it apart from: {'; '.join(best.not_told_apart)}.")
    for name, reason in report.failed.items():
        print(f"failed: {printable(name)}: {reason}")


def _cell(point: "Point | None") -> str:
    return "–" if point is None else f"{point.mean:.3f} [{point.low:.3f}, {point.high:.3f}]"
