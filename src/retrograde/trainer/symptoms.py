"""Symptoms of a run that goes wrong, read off its metric lines, each with what to try.

A run like that looks like any other while it goes on, and what it used is gone once somebody looks
at the curves. So each symptom that lasts is said aloud, once.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

Line = Mapping[str, float]
MOST = 0.5
"""Of answers that run out of tokens, or of rollouts that are cut off."""
FAILURES = 0.05
"""Of rollouts in which the environment, or what judges it, broke."""
APART = 0.05
"""Nats a token between sampler and learner under the same weights: half precision across two
engines comes to about 0.01."""
FAR = 0.1
"""Nats a token that an update may lead from the policy that sampled: usual are 0.001 to 0.01."""
RISE = 3.0
"""Times the entropy at the beginning; and at least by `FAR_UP` nats."""
FAR_UP = 0.5
ALIKE = 0.8
"""Of an iteration's rollouts that give the same answers, word for word."""
FEW = 8
"""Of so few rollouts nothing is said."""
FIRST = 3
"""Iterations that are the beginning, which later ones are compared with."""


def _cut_answers(line: Line, _first: Line) -> str | None:
    share = line.get("completions/clipped_ratio", 0.0)
    return complaint(share) if share > MOST else None


def complaint(share: float) -> str:
    """In words, what share of an iteration's answers was cut off and what helps."""
    return (
        f"{share:.0%} of the answers ran out of tokens before they came to an end; what is cut off "
        f"is seldom right, so there is little to learn from. More room: --model.max-new-tokens; or "
        f"an instruction to be brief"
    )


def _truncated(line: Line, _first: Line) -> str | None:
    share = _share(line, "truncated")
    if share is None or share <= MOST:
        return None
    return (
        f"{share:.0%} of the rollouts were cut off before the environment ended them, by its limit "
        f"of turns, --max-context-tokens or a time limit. They earn only what was earned by then. "
        f"Try more turns (--environment.turns, where there is one), a shorter context "
        f"(--environment.context window), or easier tasks"
    )


def _failing(line: Line, _first: Line) -> str | None:
    share = _share(line, "failed")
    if share is None or share <= FAILURES:
        return None
    return (
        f"the environment or a reward failed in {share:.1%} of the rollouts. These are left out of "
        f"every mean and never trained, which favours tasks that do not break. The log names each "
        f"kind of failure; `retrograde doctor --environment NAME` tries the environment alone"
    )


def _without_signal(line: Line, _first: Line) -> str | None:
    if line["step"] == 0 or line.get("update/steps", 0.0) > 0:
        return None
    return (
        "no group had anything to learn from: all its rollouts earned the same, so every advantage "
        "is 0 and the weights stay as they are. Try more rollouts a group or a higher "
        "--temperature, tasks of middling difficulty, or a lower --algorithm.min-signal"
    )


def _never_rewarded(line: Line, _first: Line) -> str | None:
    if line.get("reward/max", 1.0) > 0:
        return None
    return (
        "no rollout has earned more than 0. Look at what the model says (the rollouts/ of this "
        "run): usually it does not keep to the form the environment asks for, or the task is too "
        "hard to be done once by chance. Try easier tasks, demonstrations first, or a reward for "
        "parts of the way"
    )


def _apart(line: Line, _first: Line) -> str | None:
    gap = line.get("sampling/logp_difference/mean", 0.0)
    if gap <= APART:
        return None
    return (
        f"sampler and learner disagree by {gap:.3f} nats a token about answers that the same "
        f"weights just gave, so the ratio is wrong from the start. `retrograde doctor --model M` "
        f"finds out where; usual are a template that rewrites, half precision, or weights that the "
        f"sampler did not take"
    )


def _far(line: Line, _first: Line) -> str | None:
    moved = line.get("kl", 0.0)
    if moved <= FAR:
        return None
    return (
        f"an update leads {moved:.2f} nats a token (kl) from the policy that sampled, farther than "
        f"clipping is good for. Try a lower --algorithm.learning-rate, fewer --algorithm.epochs, "
        f"or a penalty (--algorithm.kl)"
    )


def _entropy(line: Line, first: Line) -> str | None:
    now, then = line.get("entropy"), first.get("entropy")
    if now is None or then is None or now < RISE * then or now - then < FAR_UP:
        return None
    return (
        f"the entropy has risen from {then:.2f} to {now:.2f} nats a token: answers become noise, "
        f"which seldom comes back. Try a lower --algorithm.learning-rate or a penalty "
        f"(--algorithm.kl), and go on from a checkpoint before the rise"
    )


def _alike(line: Line, _first: Line) -> str | None:
    share = line.get("rollouts/most_repeated", 0.0)
    if share <= ALIKE or line.get("rollouts/grown", 0.0) < FEW:
        return None
    return (
        f"{share:.0%} of the rollouts are the same, word for word, whatever the task: the policy "
        f"has collapsed. Try a higher --temperature, a lower --algorithm.learning-rate, or a "
        f"penalty (--algorithm.kl), and go on from a checkpoint before that"
    )


def _share(line: Line, end: str) -> float | None:
    """Of the rollouts that were played, those with that end; None if too few were."""
    number = {name: line.get(f"rollouts/ended/{name}", 0.0)
              for name in ("finished", "truncated", "failed")}  # fmt: skip
    played = sum(number.values())
    return number[end] / played if played >= FEW else None


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something that is wrong if it lasts."""

    name: str
    says: Callable[[Line, Line], str | None]
    """What to say of a line, given that of the beginning; None if it does not show."""
    lasts: int = 3
    """In so many iterations in a row it shows before it is said."""


SYMPTOMS = (
    Symptom("answers cut off", _cut_answers),
    Symptom("rollouts truncated", _truncated),
    Symptom("environment failures", _failing),
    Symptom("no signal", _without_signal),
    Symptom("never rewarded", _never_rewarded, lasts=5),
    Symptom("sampler and learner apart", _apart),
    Symptom("updates too far", _far),
    Symptom("entropy rising", _entropy),
    Symptom("one rollout repeated", _alike),
)


@dataclass
class Watch:
    """Reads a run's lines as they come; says each symptom once."""

    _in_a_row: Counter[str] = field(default_factory=Counter[str])
    _said: set[str] = field(default_factory=set[str])
    _beginning: list[Line] = field(default_factory=list[Line])
    _rewarded: bool = False

    def warnings(self, line: Line) -> list[str]:
        """What to say after this iteration."""
        if "rollouts/grown" not in line:  # that of the evaluation before the first iteration
            return []
        if len(self._beginning) < FIRST:
            self._beginning.append(line)
        first = _middle(self._beginning)
        self._rewarded |= line.get("reward/max", 0.0) > 0
        found: list[str] = []
        for symptom in SYMPTOMS:
            text = symptom.says(line, first)
            if symptom.says is _never_rewarded and self._rewarded:
                text = None
            self._in_a_row[symptom.name] = self._in_a_row[symptom.name] + 1 if text else 0
            lasts = self._in_a_row[symptom.name] >= symptom.lasts
            if text and lasts and symptom.name not in self._said:
                self._said.add(symptom.name)
                found.append(text)
        return found


def _middle(lines: list[Line]) -> Line:
    """The middle value of each figure that all lines have."""
    names = set(lines[0]).intersection(*lines)
    return {name: median(line[name] for line in lines) for name in names}
