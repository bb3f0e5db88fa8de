"""A sweep's report as one HTML page that needs nothing else: pictures are inside, and there is no script."""

import io
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from cumulant.sweeps.reports import Setting, SweepReport, Table, in_words, lines, success_tables
from cumulant.sweeps.statistics import Curve

_DRAWN = 8  # settings at most: more could not be told apart
_COLOURS = "#0072b2 #e69f00 #009e73 #cc79a7 #56b4e9 #d55e00 #999933 #888888".split()
_MARKERS = "osD^vXP*"
_INK = "#010203"  # of words and axes: the page puts its own colour in its place, light or dark
_SUCCESS: dict[str, Any] = {"xlabel": "environment steps", "ylabel": "success", "ylim": (-0.03, 1.05)}
_FEW_SHOT = _SUCCESS | {"xlabel": "labelled steps", "xscale": "log"}
_LOSS: dict[str, Any] = {"xlabel": "environment steps", "ylabel": "loss", "yscale": "log"}
_STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#1b1f24, #eceef2); --quiet: light-dark(#59636e, #a6afbd);
  --paper: light-dark(#f4f5f7, #12151a); --card: light-dark(#fff, #1b1f27); --line: light-dark(#dfe3e8, #323946); }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0; }
main { max-width: 1240px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .75rem; }
p { margin: .4rem 0; } .quiet { color: var(--quiet); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.25rem 1.5rem; margin: 1.25rem 0; overflow-x: auto; }
.best { border-left: 5px solid #009e73; } .failed { border-left: 5px solid #d55e00; }
table { border-collapse: collapse; width: 100%; font-size: .8rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem; border-bottom: 1px solid var(--line); vertical-align: bottom; }
td { white-space: nowrap; } :is(th, td):nth-child(2):last-child { text-align: left; white-space: normal; }
:is(th, td):first-child { text-align: left; white-space: normal; min-width: 9rem; overflow-wrap: anywhere; }
th { font-weight: 600; color: var(--quiet); }
svg { width: 100%; height: auto; display: block; }
"""


def page(report: SweepReport) -> str:
    """Return the whole page."""
    trials, choices = sum(len(each.trials) for each in report.settings), len(report.settings)
    counted = f"{trials:,} finished trial{'s' * (trials != 1)} of {choices:,} choice{'s' * (choices != 1)} of settings"
    counted += f", {len(report.failed)} failed" if report.failed else ""
    note = (
        "Means with 95 % intervals: over seeds (a bootstrap); where there is one seed, over its episodes. Seconds are "
        "those of the program that a trial was in."
    )
    failed = Table("", ["trial", "why"], [list(each) for each in report.failed.items()])
    common = Table("", ["setting", "value"], [list(each) for each in report.common.items()])
    folders = [[f"{name}/library", each.label] for each in report.settings for name in each.trials]
    libraries = _said('Each acts at once: cumulant solve "…" --library FOLDER.') + _html(
        Table("", ["folder", "settings"], folders)
    )
    folded = f"<details><summary>{len(common.rows)} settings</summary>{_html(common)}</details>"
    parts = [
        *(_section("Best settings", "".join(map(_said, in_words(each))), "best") for each in report.best),
        _section("Failed", _html(failed), "failed") if failed.rows else "",
        *(_section(each.title, _said(note) + _html(each)) for each in success_tables(report)),
        _pictures(report),
        _section("Libraries", libraries) if folders else "",
        _section("The same in all trials", folded) if common.rows else "",
    ]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(report.folder)}: a sweep</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(report.folder)}</h1>
<p class="quiet">{escape(counted)}. Made by cumulant report.</p>
{"".join(parts)}
</main>
</body>
</html>
"""


def _section(title: str, body: str, kind: str = "") -> str:
    return f'<section class="{kind}">\n<h2>{escape(title)}</h2>\n{body}\n</section>\n'


def _said(words: str) -> str:
    return f'<p class="quiet">{escape(words)}</p>'


def _html(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        shown = [escape(cell).replace(" [", "<br>[") for cell in cells]  # an interval goes below its mean
        return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in shown)}</tr>\n"

    return f"<table>{row(table.columns, 'th')}{''.join(row(each, 'td') for each in table.rows)}</table>"


def _pictures(report: SweepReport) -> str:
    """Draw success by class, how it grew with labelled steps, and what was known while learning."""
    drawn = report.settings[:_DRAWN]
    panels: list[tuple[str, Callable[[Axes], None]]] = [
        (f"success by class, {line}", partial(_draw_classes, line=line, settings=drawn)) for line in lines(report)
    ]
    curves: list[tuple[str, list[Curve | None], dict[str, Any]]] = [
        ("success against labelled steps", [each.few_shot for each in drawn], _FEW_SHOT),
        ("while learning: success on held-out goals", [each.learning.get("success") for each in drawn], _SUCCESS),
        ("while learning: loss", [each.learning.get("loss") for each in drawn], _LOSS),
    ]
    panels += [(title, partial(_draw_curves, curves=found, axes=axes)) for title, found, axes in curves if any(found)]
    if not panels:
        return ""
    dark = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK)
    plain = {"svg.hashsalt": "cumulant", "svg.fonttype": "none", "text.parse_math": False, "font.family": "sans-serif"}
    spines = {"axes.spines.top": False, "axes.spines.right": False}
    with mpl.rc_context(dark | plain | spines):  # type: ignore[arg-type]
        figure = Figure(figsize=(10, 3.6 * len(panels)), layout="constrained")
        for ax, (title, draw) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
            draw(ax)
            ax.set_title(title, loc="left")
            ax.grid(alpha=0.25)
        marks = [ax.plot([], [], color=c, marker=m)[0] for c, m, _ in zip(_COLOURS, _MARKERS, drawn, strict=False)]
        labels = [each.label.lstrip("_") for each in drawn]
        figure.legend(marks, labels, loc="outside upper left", frameon=False, ncols=2)
        block = io.StringIO()
        figure.savefig(block, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    picture = block.getvalue()
    more = f" The best {_DRAWN} of {len(report.settings)} settings are drawn." * (len(report.settings) > _DRAWN)
    note = f"Success with 95 % intervals; while learning, the mean over seeds and their range.{more}"
    return _section("Pictures", _said(note) + picture[picture.index("<svg") :].replace(_INK, "currentColor"))


def _draw_classes(ax: Axes, line: str, settings: Sequence[Setting]) -> None:
    kinds = list(dict.fromkeys(kind for each in settings for kind in each.success.get(line, ())))
    for i, each in enumerate(settings):
        points = {kinds.index(kind): point for kind, point in each.success.get(line, {}).items()}
        for k, (mean, low, high) in points.items():
            errors = [[max(0.0, mean - low)], [max(0.0, high - mean)]]
            place = k + 0.09 * (i - (len(settings) - 1) / 2)
            ax.errorbar([place], [mean], errors, capsize=2, markersize=5, color=_COLOURS[i], marker=_MARKERS[i])
    ax.set_xticks(range(len(kinds)), [kind.replace("_", ",\n") for kind in kinds])
    ax.set(ylabel="success", ylim=(-0.03, 1.05))


def _draw_curves(ax: Axes, curves: Sequence[Curve | None], axes: dict[str, Any]) -> None:
    for i, found in enumerate(curves):
        if found is not None:
            ax.plot(found.steps, found.mean, color=_COLOURS[i], linewidth=1.5, marker=_MARKERS[i], markersize=4)
            ax.fill_between(found.steps, found.low, found.high, color=_COLOURS[i], alpha=0.15, linewidth=0)
    ax.set(**axes)
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_locator(NullLocator())
