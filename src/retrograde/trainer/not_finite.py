"""A loss or gradient that is not finite: the step is not taken, and what caused it is kept.

`not_finite/step-N/` in a run's directory holds `rows.jsonl`, one row of the batch a line with the
log-probabilities that the weights give it, `about.json`, and `weights/`, the model as it was before
the step. To look at it:

    from retrograde.trainer.not_finite import looked_at
    print(looked_at("runs/hop-rtpo-0/not_finite/step-000012"))
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from retrograde.data.rows import Row
from retrograde.trainer.failure import RunError, Writing

FOLDER = "not_finite"
LARGE = 100.0
"""An advantage, or a change of an action's log-probability in nats, beyond this is suspicious."""
SHOWN_ROWS = 12
SHOWN_LETTERS = 60


class NotFiniteError(RunError):
    """The loss or the gradient is not finite."""


def failure(cause: FloatingPointError, kept: Path | None, *, taken: bool = False) -> NotFiniteError:
    """What to tell a user; `taken` says that the steps of an update were taken before."""
    said = f"{cause}. {'' if taken else 'The step was not taken. '}The checkpoints are untouched."
    if kept is not None:
        said += (
            f" The batch is kept in {kept}. To look at it:\n"
            f'  python -c "from retrograde.trainer.not_finite import looked_at; '
            f"print(looked_at('{kept}'))\""
        )
    return NotFiniteError(said)


def write_batch(
    place: Path,
    rows: Sequence[Row],
    logp_now: Sequence[Sequence[float]],
    about: Mapping[str, Any],
    save_model: Callable[[Path], None],
    decode: Callable[[Sequence[int]], str],
) -> None:
    """Keep a batch, and the weights that it was not finite under.

    Args:
        place: a directory, made here.
        rows: the batch.
        logp_now: of each row's action under the weights of now.
        about: what else to keep.
        save_model: writes the weights into a directory.
        decode: ids to text, for people.
    """
    with Writing(place):
        place.mkdir(parents=True, exist_ok=True)
        with (place / "rows.jsonl").open("w") as out:
            for row, now in zip(rows, logp_now, strict=True):
                record = {
                    "turn": row.turn,
                    "group": row.group,
                    "rollout": row.rollout,
                    "advantage": _plain(row.advantages),
                    "behaviour_logp": _plain(row.behaviour_logp),
                    "logp_now": _plain(now),
                    "context": row.context,
                    "action": row.action,
                    "shown": decode(row.context),
                    "said": decode(row.action),
                }
                out.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
        (place / "about.json").write_text(json.dumps(dict(about), indent=1) + "\n")
        (place / "weights").mkdir(exist_ok=True)
        save_model(place / "weights")


def _plain(values: Sequence[float]) -> list[float | str]:
    """Numbers as JSON; those that it has no words for as text that `float` reads."""
    return [value if math.isfinite(value) else str(value) for value in values]


def looked_at(place: Path | str) -> str:
    """A kept batch in words: what happened, and its rows, the suspicious ones first."""
    about = cast("dict[str, Any]", json.loads((Path(place) / "about.json").read_text()))
    text = (Path(place) / "rows.jsonl").read_text().splitlines()
    rows = [(_suspicion(record), record) for record in map(json.loads, text)]
    rows.sort(key=lambda entry: not entry[0])  # stable: otherwise in the order of the batch
    odd = sum(bool(why) for why, _ in rows)
    lines = [f"{name}: {value}" for name, value in about.items()]
    lines.append(f"{len(rows)} rows, {odd} of them suspicious" + (":" if odd else ""))
    for why, record in rows[:SHOWN_ROWS]:
        said = record["said"][:SHOWN_LETTERS]
        place_of = f"group {record['group']}, turn {record['turn']}"
        lines.append(f"- {place_of}: {why or 'nothing odd'}; advantage "
                     f"{_range(record['advantage'])}, log-probability when sampled "
                     f"{_range(record['behaviour_logp'])}, now {_range(record['logp_now'])}; "
                     f"it said {said!r}")  # fmt: skip
    if len(rows) > SHOWN_ROWS:
        lines.append(f"  and {len(rows) - SHOWN_ROWS} more in {Path(place) / 'rows.jsonl'}")
    lines.append(f"the weights before the step: {Path(place) / 'weights'}")
    return "\n".join(lines)


def _suspicion(record: Mapping[str, Any]) -> str:
    found: list[str] = []
    for name in ("advantage", "behaviour_logp", "logp_now"):
        values = [float(value) for value in record[name]]
        if not all(map(math.isfinite, values)):
            found.append(f"{name} is not finite")
        elif name == "advantage" and max(map(abs, values), default=0.0) > LARGE:
            found.append(f"{name} beyond {LARGE:g}")
    change = sum(map(float, record["logp_now"])) - sum(map(float, record["behaviour_logp"]))
    if abs(change) > LARGE:
        found.append("its log-probability changed greatly since it was sampled")
    return ", ".join(found)


def _range(values: Sequence[float | str]) -> str:
    numbers = [float(value) for value in values]
    if not all(map(math.isfinite, numbers)):
        return "/".join(sorted({str(number) for number in numbers if not math.isfinite(number)}))
    low, high = min(numbers, default=0.0), max(numbers, default=0.0)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
