"""`curves.svg` and `compare.html`: a comparison as a picture and as one page."""

import io
from collections.abc import Iterable, Sequence
from html import escape
from importlib.util import find_spec
from itertools import cycle
from typing import Any

import numpy as np

from retrograde.cli.compare_table import (
    COSTS,
    KIND_NAMES,
    LEGEND,
    NOTHING,
    OUTCOMES,
    SETTING_HEADINGS,
    Column,
    Record,
    difference_rows,
    failures,
    rows_of,
    setting_rows,
    title_of,
    verdicts,
)
from retrograde.trainer.comparison import Outcome, bootstrap, methods_of

REQUIREMENT = "matplotlib>=3.9"
INK = "#0b0c0d"
"""Stands for the colour of text in the picture; a page puts its own in its place."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f7f7f")
"""Told apart by people who see fewer colours, on white and on black (Okabe and Ito)."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
CURVES_LEGEND = """\
Mean over seeds; the band is its 95 % bootstrap interval, thin lines are single seeds. Between \
evaluations the lines are straight."""
UNSAID = ("Creator", "Date", "Format", "Type")
"""What a picture would say of itself; nothing here depends on when it was drawn."""
GRID = 101
"""Points at which curves of several seeds are averaged."""
STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --faint: #666; --rule: #ccc; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #15171a; --faint: #9aa0a6; --rule: #3a3f45; }
}
body { color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, sans-serif;
  max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--faint); padding-bottom: .4rem; }
th, td { text-align: right; padding: .3rem .7rem; border-bottom: 1px solid var(--rule);
  vertical-align: top; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { white-space: normal; vertical-align: bottom; }
.words td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
figure { margin: 1rem 0; color: var(--ink); } svg { max-width: 100%; height: auto; }
.faint, figcaption { color: var(--faint); font-size: .9rem; }
"""


def check_can_draw() -> None:
    """Refuse to begin what could not be finished.

    Raises:
        ValueError: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise ValueError(
            f"curves.svg needs matplotlib, which is not installed: pip install '{REQUIREMENT}'"
        )


def curves(record: Record) -> str:
    """Success against the budget used, as SVG: means over seeds, their intervals, each seed."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    settings = record["settings"]
    look: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "retrograde",
        "font.family": "sans-serif",
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with rc_context(look):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.subplots()
        styles = zip(cycle(COLOURS), cycle(MARKERS), strict=False)
        for method, (colour, marker) in zip(methods_of(record), styles, strict=False):
            runs = [run for run in method.runs if run.status == "finished"]
            if runs:
                _draw(axes, runs, settings, label=method.label, colour=colour, marker=marker)
        axes.set_xlim(0, settings["budget"])
        axes.set_ylim(0, 1)
        axes.xaxis.set_major_formatter("{x:,.0f}" if settings["budget"] > GRID else "{x:g}")
        axes.set_xlabel(KIND_NAMES[settings["budget_kind"]])
        axes.set_ylabel("held-out success")
        axes.grid(color=INK, alpha=0.15, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.patch.set_alpha(0)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, loc="best")
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata=dict.fromkeys(UNSAID))
    return drawn.getvalue()


def _draw(
    axes: Any,
    runs: Sequence[Outcome],
    settings: Record,
    *,
    label: str,
    colour: str,
    marker: str,
) -> None:
    kind, budget = settings["budget_kind"], settings["budget"]
    at = np.linspace(0.0, budget, GRID)
    heights = []
    for run in runs:
        used = [point.used(kind) for point in run.curve]
        success = [point.success for point in run.curve]
        heights.append(np.interp(at, used, success))
        if len(runs) > 1:
            axes.plot(used, success, color=colour, alpha=0.3, linewidth=0.8)
    found = [bootstrap([float(h) for h in column]) for column in zip(*heights, strict=True)]
    low, high = ([getattr(f, name) for f in found] for name in ("low", "high"))
    axes.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(
        at,
        [f.mean for f in found],
        color=colour,
        label=label,
        marker=marker,
        markevery=GRID // 10,
        markersize=5,
    )


def page(record: Record, picture: str) -> str:
    """One page that needs nothing else.

    Args:
        record: what `compare.json` holds.
        picture: what `curves` gave.
    """
    title = escape(title_of(record))
    baseline = escape(record["baseline"])
    parts = [
        f"<h1>{title}</h1>",
        "<h2>What was found</h2>",
        _list(verdicts(record)),
        *([_list(failures(record))] if failures(record) else []),
        _metrics("Success", rows_of(record["methods"], OUTCOMES), OUTCOMES),
    ]
    apart = difference_rows(record, OUTCOMES)
    if apart:
        parts.append(_metrics(f"Paired difference to {baseline}", apart, OUTCOMES))
    parts += [
        "<h2>Curves</h2>",
        f"<figure>{inline(picture)}<figcaption>{CURVES_LEGEND}</figcaption></figure>",
        "<h2>Cost</h2>",
        _metrics("What each method used", rows_of(record["methods"], COSTS), COSTS),
        _metrics("Difference to the baseline", difference_rows(record, COSTS), COSTS)
        if apart
        else "",
        f'<p class="faint">{escape(LEGEND)}</p>',
        "<h2>Learning rates</h2>",
        _table("Each method's learning rate, and its runs", SETTING_HEADINGS, setting_rows(record)),
        _tuning(record),
        "<h2>Runs</h2>",
        _runs(record),
        "<h2>Settings</h2>",
        _table(
            "The same for every method", ("setting", "value"), _leaves(record["settings"]), "words"
        ),
        _table("Machine", ("", "value"), _leaves(record["machine"]), "words"),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def inline(picture: str) -> str:
    """An SVG as part of a page, in the page's own colours."""
    drawing = picture[picture.index("<svg") :].replace(INK, "currentColor")
    background = "fill: #ffffff"
    if background in drawing:  # the figure's own paper, which comes first
        drawing = drawing.replace(background, "fill: none", 1)
    return drawing.replace("<svg", '<svg role="img" aria-label="Success against budget"', 1)


def _tuning(record: Record) -> str:
    rows = [
        [
            entry["label"],
            f"{trial['learning_rate']:g}",
            str(trial["seed"]),
            *_cells(trial, (*OUTCOMES[::2], COSTS[0])),
        ]
        for entry in record["methods"]
        for trial in entry["tuning"]
    ]
    headings = ("method", "learning rate", "seed", "final success", "area", "generated tokens")
    return _table("Runs made to choose them, on seeds of their own", headings, rows) if rows else ""


def _runs(record: Record) -> str:
    columns = (*OUTCOMES, *COSTS)
    rows = [
        [entry["label"], str(run["seed"]), run["status"], *_cells(run, columns)]
        for entry in record["methods"]
        for run in entry["runs"]
    ]
    headings = ("method", "seed", "status", *(column.heading for column in columns))
    return _table("Every run", headings, rows)


def _cells(run: Record, columns: Iterable[Column]) -> list[str]:
    return [NOTHING if run[c.metric] is None else f"{run[c.metric]:{c.form}}" for c in columns]


def _metrics(caption: str, rows: Sequence[Sequence[str]], columns: Sequence[Column]) -> str:
    return _table(caption, ("method", *(column.heading for column in columns)), rows)


def _table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], kind: str = ""
) -> str:
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="wide"><table class="{kind}"><caption>{escape(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _list(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>"


def _leaves(tree: Record, prefix: str = "") -> list[list[str]]:
    rows: list[list[str]] = []
    for name, value in tree.items():
        if isinstance(value, dict):
            rows += _leaves(value, f"{prefix}{name}.")
        else:
            rows.append([prefix + name, "not set" if value is None else str(value)])
    return rows
