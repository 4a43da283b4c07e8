"""The tables of a comparison, for a terminal, a page or Markdown; read from `compare.json`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

Record = Mapping[str, Any]
NOTHING = "-"
KIND_NAMES = {"tokens": "generated tokens", "turns": "turns", "seconds": "seconds of training"}


@dataclass(frozen=True)
class Column:
    """A metric, as people read it."""

    metric: str
    heading: str
    short: str
    """The heading where there is little room."""
    form: str


OUTCOMES = (
    Column("final_success", "final success", "final success", ".3f"),
    Column("best_success", "best success", "best success", ".3f"),
    Column("auc", "area under curve", "area under curve", ".3f"),
)
COSTS = (
    Column("tokens", "generated tokens", "tokens", ",.0f"),
    Column("env_steps", "environment steps", "env. steps", ",.0f"),
    Column("optimizer_steps", "optimizer steps", "opt. steps", ",.1f"),
    Column("wall_seconds", "wall seconds", "wall s", ",.1f"),
    Column("zero_advantage_share", "zero-advantage turns", "zero adv.", ".3f"),
)
LEGEND = """\
Mean over seeds, with its 95 % bootstrap interval in brackets. Final success: share of the \
held-out tasks solved at temperature 1 after the last update. Best success: the highest of a \
run's evaluations, which flatters. Area under curve: success against the budget used, 1 for a \
method that always succeeds. Environment steps: turns played while training. Wall seconds \
include evaluations. Zero-advantage turns: share of the turns in updates from which nothing is \
learned. A run uses at most one iteration more than its budget; final success counts what it \
learned there, the area does not. A difference is the mean over seeds of the difference between \
two runs of one seed."""
FEW_SEEDS = 5


def interval(found: Record | None, form: str, *, sign: bool = False) -> str:
    """A mean with its interval; without it where there is one seed."""
    if found is None:
        return NOTHING
    mean, low, high = (
        f"{found[name]:{'+' if sign else ''}{form}}" for name in ("mean", "low", "high")
    )
    return mean if low == high == mean else f"{mean} [{low}, {high}]"


def rows_of(methods: Sequence[Record], columns: Sequence[Column]) -> list[list[str]]:
    """One row a method: its label and each metric."""
    return [
        [entry["label"], *(interval(entry["summary"][c.metric], c.form) for c in columns)]
        for entry in methods
    ]


def difference_rows(record: Record, columns: Sequence[Column]) -> list[list[str]]:
    """One row for each method but the baseline."""
    return [
        [
            entry["label"],
            *(interval(entry["difference"][c.metric], c.form, sign=True) for c in columns),
        ]
        for entry in record["methods"]
        if entry["difference"] is not None
    ]


def setting_rows(record: Record) -> list[list[str]]:
    """Each method's learning rate, how it came by it, and its runs."""
    rows: list[list[str]] = []
    for entry in record["methods"]:
        rate = NOTHING if entry["learning_rate"] is None else f"{entry['learning_rate']:g}"
        runs = entry["runs"]
        finished = sum(run["status"] == "finished" for run in runs)
        rows.append([entry["label"], rate, tuning_of(entry), f"{finished} of {len(runs)}"])
    return rows


SETTING_HEADINGS = ("method", "learning rate", "spent on tuning", "runs finished")


def tuning_of(entry: Record) -> str:
    """What was spent on choosing a method's learning rate."""
    trials = entry["tuning"]
    if not trials:
        return "nothing"
    rates = len({trial["learning_rate"] for trial in trials})
    tokens = sum(trial["tokens"] or 0 for trial in trials)
    seconds = sum(trial["wall_seconds"] or 0.0 for trial in trials)
    return f"{rates} rates, {len(trials)} runs: {tokens:,} tokens, {seconds:,.0f} s"


def verdicts(record: Record) -> list[str]:
    """What the intervals of final success do and do not say, one sentence a method."""
    baseline, seeds = record["baseline"], record["settings"]["seeds"]
    where = "in the one seed there is" if seeds == 1 else "in every seed"
    found: list[str] = []
    for entry in record["methods"]:
        apart = entry["difference"] and entry["difference"]["final_success"]
        if entry["difference"] is None:
            continue
        if apart is None:
            found.append(f"{entry['label']} and {baseline} have no seed that both finished.")
            continue
        shown = interval(apart, ".3f", sign=True)
        if apart["low"] == apart["high"]:
            found.append(f"{entry['label']} minus {baseline}: {shown} in final success, {where}.")
        elif apart["low"] > 0 or apart["high"] < 0:
            side = "above" if apart["mean"] > 0 else "below"
            found.append(f"{entry['label']} ends {side} {baseline}: {shown} in final success.")
        else:
            found.append(
                f"{entry['label']} and {baseline} are not told apart by these seeds: "
                f"{shown} in final success, and 0 is inside."
            )
    if seeds == 1:
        found.append("One seed says nothing about chance: there are no intervals.")
    elif seeds < FEW_SEEDS:
        found.append(
            f"With {seeds} seeds these intervals are too narrow: they cannot leave the range of "
            "what was seen."
        )
    return found


def failures(record: Record) -> list[str]:
    """Every run that failed, and why."""
    return [
        f"{entry['label']}, {what}seed {run['seed']}: failed: {run['error']}"
        for entry in record["methods"]
        for what, runs in (("tuning, ", entry["tuning"]), ("", entry["runs"]))
        for run in runs
        if run["status"] == "failed"
    ]


def title_of(record: Record) -> str:
    """The comparison in one line."""
    settings = record["settings"]
    return (
        f"{len(record['methods'])} methods on {settings['environment']}, {settings['model']}: "
        f"{settings['budget']:,} {KIND_NAMES[settings['budget_kind']]} each, "
        f"{settings['seeds']} seed{'s' if settings['seeds'] > 1 else ''}"
    )


def printed(record: Record, console: Console) -> None:
    """Print the tables to a terminal."""
    methods, baseline = record["methods"], record["baseline"]
    apart = difference_rows(record, OUTCOMES)
    outcomes, costs = (("method", *(c.short for c in columns)) for columns in (OUTCOMES, COSTS))
    parts = [(title_of(record), outcomes, rows_of(methods, OUTCOMES))]
    if apart:
        parts.append((f"difference to {baseline}, seed by seed", outcomes, apart))
    parts.append(("cost", costs, rows_of(methods, COSTS)))
    parts.append(("settings", SETTING_HEADINGS, setting_rows(record)))
    for title, headings, rows in parts:
        table = Table(title=title, title_justify="left")
        for place, heading in enumerate(headings):
            table.add_column(heading, justify="right" if place else "left", overflow="fold")
        for row in rows:
            # The interval goes on a line of its own, so that no number is broken.
            table.add_row(*(escape(cell.replace(" [", "\n[")) for cell in row))
        console.print(table)
    for sentence in (*verdicts(record), *failures(record)):
        console.print(escape(sentence), soft_wrap=True, highlight=False)


def markdown(record: Record) -> list[str]:
    """The comparison as lines of Markdown: tables and what they say."""
    columns = (*OUTCOMES, *COSTS)
    apart = {row[0]: row[1] for row in difference_rows(record, OUTCOMES)}
    settings = {row[0]: row[1] for row in setting_rows(record)}
    headings = [
        "method",
        "learning rate",
        "final success",
        f"minus {record['baseline']}, paired",
        *_headings(columns[1:]),
    ]
    lines = [_line(headings), "|" + "---|" * len(headings)]
    for label, final, *others in rows_of(record["methods"], columns):
        lines.append(
            _line([f"`{label}`", settings[label], final, apart.get(label, NOTHING), *others])
        )
    lines.append("")
    lines += [f"- {sentence}" for sentence in (*verdicts(record), *failures(record))]
    return lines


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _headings(columns: Sequence[Column]) -> list[str]:
    return [column.heading for column in columns]
