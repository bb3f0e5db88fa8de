"""`cumulant report`."""

from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from tyro.conf import Positional

from cumulant.commands.inputs import BadInput, Flag, usable_files
from cumulant.commands.output import on_terminal, print_json, print_table


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
            from cumulant.sweeps.experiments import printable
            from cumulant.sweeps.report_page import page
            from cumulant.sweeps.reports import as_plain, in_words, success_tables, summarise_sweep

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
        for table in success_tables(report):
            columns, *rows = [[escape(printable(each)) for each in row] for row in (table.columns, *table.rows)]
            print_table(escape(printable(table.title)), columns, rows)
        for best in report.best:
            print("\n".join(in_words(best)))
        for name, reason in report.failed.items():
            print(f"failed: {printable(name)}: {reason}")
        print(f"Written to {picture} and {data}.")
