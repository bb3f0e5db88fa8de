"""A sweep's report as one HTML page that needs nothing else: pictures are inside, and there is no script."""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cumulant.sweeps.reports import Best, Setting, SweepReport
from cumulant.sweeps.statistics import Curve, Point

_DRAWN = 8  # settings at most: more could not be told apart
_COLOURS = "#0072b2 #e69f00 #009e73 #cc79a7 #56b4e9 #d55e00 #777777 #000000".split()
_MARKERS = "osD^vXP*"
_ON_THE_WAY = (("success", "success on held-out goals"), ("loss", "loss"))
_STYLE = """
:root { color-scheme: light; --ink: #1b1f24; --quiet: #59636e; --paper: #f4f5f7; --card: #fff; --line: #dfe3e8; }
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --ink: #eceef2; --quiet: #a6afbd; --paper: #12151a; --card: #1b1f27; --line: #323946; }
}
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: var(--ink);
  background: var(--paper); margin: 0; }
main { max-width: 1240px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .75rem; }
p { margin: .4rem 0; } .quiet { color: var(--quiet); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.25rem 1.5rem; margin: 1.25rem 0; }
.best { border-left: 5px solid #009e73; } .failed { border-left: 5px solid #d55e00; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .4rem .45rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 9rem; }
th { font-weight: 600; color: var(--quiet); white-space: normal; vertical-align: bottom; }
td small { color: var(--quiet); } tr:last-child td { border-bottom: 0; }
img { width: 100%; height: auto; display: block; background: #fff; border-radius: 6px; }
code { font-size: .88em; overflow-wrap: anywhere; }
"""


def page(report: SweepReport) -> str:
    """The whole page."""
    trials, choices = sum(len(each.trials) for each in report.settings), len(report.settings)
    counted = f"{trials:,} finished trial{'s' * (trials != 1)} of {choices:,} choice{'s' * (choices != 1)} of settings"
    counted += f", {len(report.failed)} failed" if report.failed else ""
    parts = [
        *(_best(each) for each in report.best),
        *(_failed(report.failed) for _ in range(bool(report.failed))),
        *(_table(line, report.settings) for line in _lines(report.settings)),
        *_pictures(report.settings),
        _common(report.common),
        _folders(report.settings),
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
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


def _best(best: Best) -> str:
    mean, low, high = best.success
    body = f"<p><strong>{escape(best.label)}</strong>: {mean:.3f} [{low:.3f}, {high:.3f}]</p>"
    if best.not_told_apart:
        body += f"<p>Its interval does not tell it apart from: {escape('; '.join(best.not_told_apart))}.</p>"
    body += f'<p class="quiet">It was {escape(best.chosen_on)}. What it comes to is to be measured on others.</p>'
    return _section(f"Best settings, {best.line}", body, "best")


def _failed(failed: Mapping[str, str]) -> str:
    rows = [[escape(name), escape(reason)] for name, reason in failed.items()]
    return _section("Failed", _rows(["trial", "why"], rows), "failed")


def _lines(settings: Sequence[Setting]) -> list[str]:
    return list(dict.fromkeys(line for each in settings for line in each.overall))


def _table(line: str, settings: Sequence[Setting]) -> str:
    judged = [each for each in settings if line in each.overall]
    kinds = list(dict.fromkeys(kind for each in judged for kind in each.success[line]))
    rows = [
        [escape(each.label), str(len(each.seeds)), _cell(each.overall[line])]
        + [_cell(each.success[line].get(kind)) for kind in kinds]
        + [f"{each.seconds:.1f}"]
        for each in judged
    ]
    columns = ["settings", "seeds", "all tasks", *(kind.replace("_", ", ") for kind in kinds), "training, s"]
    note = (
        '<p class="quiet">Mean success with its 95 % interval: over seeds (a bootstrap); '
        "where there is one seed, over its episodes. Seconds are those of the program that a trial was in.</p>"
    )
    return _section(f"Success, {line}", note + _rows(columns, rows))


def _cell(point: Point | None) -> str:
    if point is None:
        return "–"
    return f"{point.mean:.3f}<br><small>{point.low:.3f} to {point.high:.3f}</small>"


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the cells are HTML already."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _common(common: Mapping[str, str]) -> str:
    """What no trial varied: long, and seldom looked at."""
    rows = [[f"<code>{escape(name)}</code>", escape(value)] for name, value in common.items()]
    folded = f"<details><summary>{len(rows)} settings</summary>\n{_rows(['setting', 'value'], rows)}</details>"
    return _section("The same in all trials", folded) if rows else ""


def _folders(settings: Sequence[Setting]) -> str:
    rows = [[f"<code>{escape(name)}/library</code>", escape(each.label)] for each in settings for name in each.trials]
    note = '<p class="quiet">Each library acts at once: <code>cumulant solve "…" --library FOLDER</code>.</p>'
    return _section("Libraries", note + _rows(["folder", "settings"], rows))


def _pictures(settings: Sequence[Setting]) -> list[str]:
    """Success by class, how it grew with labelled steps, and what was known while learning."""
    drawn, sections = settings[:_DRAWN], list[str]()
    more = f" The best {_DRAWN} of {len(settings)} settings are drawn." if len(settings) > _DRAWN else ""
    for line in _lines(drawn):
        picture = _picture(partial(_draw_classes, line=line, settings=drawn))
        words = f"Success by class, {line}"
        sections.append(_section(words, _image(picture, words) + _said(more)))
    curves = {"Success against labelled steps": [each.few_shot for each in drawn]}
    curves |= {f"While learning: {words}": [each.learning.get(name) for each in drawn] for name, words in _ON_THE_WAY}
    for words, found in curves.items():
        if any(found):
            picture = _picture(partial(_draw_curves, settings=drawn, curves=found, words=words))
            band = "95 % intervals." if words.startswith("Success") else "Mean over seeds; the band is their range."
            sections.append(_section(words, _image(picture, words) + _said(band + more)))
    return sections


def _said(words: str) -> str:
    return f'<p class="quiet">{escape(words.strip())}</p>' if words.strip() else ""


def _picture(draw: Callable[[Axes], None]) -> str:
    """What is drawn, as SVG; the same numbers give the same bytes."""
    looks = {"svg.hashsalt": "cumulant", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
    with mpl.rc_context(looks):  # type: ignore[arg-type]
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        ax = figure.subplots()
        draw(ax)
        ax.grid(alpha=0.25)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", frameon=False, ncols=2)
        data = io.BytesIO()
        figure.savefig(data, format="svg", metadata={"Date": None, "Creator": None})
    return base64.b64encode(data.getvalue()).decode()


def _image(picture: str, words: str) -> str:
    return f'<img alt="{escape(words)}" src="data:image/svg+xml;base64,{picture}">'


def _plain(words: str) -> str:
    """Not read as mathematics, nor left out of the legend."""
    return words.replace("$", r"\$").lstrip("_")


def _draw_classes(ax: Axes, line: str, settings: Sequence[Setting]) -> None:
    judged = [(i, each) for i, each in enumerate(settings) if line in each.success]
    kinds = list(dict.fromkeys(kind for _, each in judged for kind in each.success[line]))
    for i, each in judged:
        there = [(k, each.success[line][kind]) for k, kind in enumerate(kinds) if kind in each.success[line]]
        places = [k + 0.09 * (i - (len(settings) - 1) / 2) for k, _ in there]
        means = [point.mean for _, point in there]
        errors = [[max(0.0, p.mean - p.low) for _, p in there], [max(0.0, p.high - p.mean) for _, p in there]]
        marks = {"color": _COLOURS[i], "marker": _MARKERS[i], "linestyle": "", "label": _plain(each.label)}
        ax.errorbar(places, means, errors, capsize=2, markersize=5, **marks)  # type: ignore[arg-type]
    ax.set_xticks(range(len(kinds)), [_plain(kind.replace("_", ",\n")) for kind in kinds])
    ax.set(ylabel="success", ylim=(-0.03, 1.05))


def _draw_curves(ax: Axes, settings: Sequence[Setting], curves: Sequence[Curve | None], words: str) -> None:
    for i, (each, found) in enumerate(zip(settings, curves, strict=True)):
        if found is not None:
            ax.plot(found.steps, found.mean, color=_COLOURS[i], linewidth=1.5, label=_plain(each.label))
            ax.fill_between(found.steps, found.low, found.high, color=_COLOURS[i], alpha=0.15, linewidth=0)
    labelled, losses = words.startswith("Success"), words.endswith("loss")
    ax.set(xlabel="labelled steps" if labelled else "environment steps", ylabel="loss" if losses else "success")
    ax.set(**({"xscale": "log"} if labelled else {"xlim": (0, None)}))
    if losses:
        ax.set_yscale("log")
    else:
        ax.set_ylim(-0.03, 1.05)
