"""Whether an environment keeps its contract: one finding for each rule, for yours as for ours.

In a test::

    async def test_my_environment_keeps_the_contract():
        (await conformance.check(MyEnvironment())).confirm()

From the command line: `retrograde doctor --environment FILE.py:MyEnvironment`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from retrograde.environments import fork_rules, offer_rules, rules
from retrograde.environments.ground import Ground, NotApplicableError, ViolationError, outcome
from retrograde.environments.protocol import Environment

TASKS = 3
SECONDS = 120.0


class Verdict(StrEnum):
    """What was found out about a rule."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_APPLICABLE = "not applicable"
    """There is nothing that the rule is about."""
    NOT_CHECKED = "not checked"
    """Another rule is broken without which this one cannot be looked at."""


class Rule(NamedTuple):
    """A rule, and those that have to be kept before it can be looked at."""

    look: Callable[[Ground], Awaitable[str]]
    needs: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """What it says."""
        return (self.look.__doc__ or "").strip().splitlines()[0]


PLAYED = ("opening", "observations")
REPEATED = (*PLAYED, "determinism")

RULES: dict[str, Rule] = {
    "data": Rule(rules.data),
    "sizes": Rule(rules.sizes),
    "unknown": Rule(rules.unknown),
    "opening": Rule(rules.opening),
    "observations": Rule(rules.observations, ("opening",)),
    "limits": Rule(rules.limits, PLAYED),
    "strange": Rule(rules.strange_text, PLAYED),
    "closing": Rule(rules.closing, PLAYED),
    "teacher": Rule(rules.teacher, ("opening",)),
    "determinism": Rule(rules.determinism, PLAYED),
    "start": Rule(rules.start, REPEATED),
    "splits": Rule(rules.splits, REPEATED),
    "fork": Rule(fork_rules.fork, REPEATED),
    "chance": Rule(fork_rules.chance, (*REPEATED, "fork")),
    "replay": Rule(fork_rules.replay, REPEATED),
    "scores": Rule(offer_rules.scores, PLAYED),
    "turn_rewards": Rule(offer_rules.turn_rewards, PLAYED),
    "gold": Rule(offer_rules.gold, PLAYED),
    "transcript": Rule(rules.round_trip, REPEATED),
}
"""In the order in which they are looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about one rule."""

    rule: str
    about: str
    verdict: Verdict
    detail: str
    """What was looked at, how it is broken, or why it was not looked at."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found out about an environment."""

    environment: str
    findings: tuple[Finding, ...]

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The rules that are broken."""
        return tuple(each for each in self.findings if each.verdict is Verdict.BROKEN)

    def verdict(self, rule: str) -> Verdict:
        """What was found out about a rule."""
        return next(each.verdict for each in self.findings if each.rule == rule)

    def confirm(self) -> None:
        """See that nothing is broken.

        Raises:
            AssertionError: something is; each rule is named.
        """
        if self.broken:
            lines = [f"  {each.rule}: {each.about}\n    {each.detail}" for each in self.broken]
            raise AssertionError(f"{self.environment} breaks its contract:\n" + "\n".join(lines))

    def plain(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)


async def check(
    environment: Environment,
    *,
    tasks: int = TASKS,
    seed: int = 0,
    rules: Sequence[str] = tuple(RULES),
    seconds: float = SECONDS,
) -> Report:
    """Look at every rule.

    Args:
        environment: what is looked at.
        tasks: of each split that are played.
        seed: of whoever plays.
        rules: which are looked at, and those they need.
        seconds: what one rule may take; an environment that waits for ever breaks it.
    """
    ground = Ground(environment, tasks, seed)
    wanted = set(rules) | {need for name in rules for need in RULES[name].needs}
    findings: dict[str, Finding] = {}
    for name, rule in RULES.items():
        if name not in wanted:
            continue
        missing = [need for need in rule.needs if findings[need].verdict in _IN_THE_WAY]
        if missing:
            found = Verdict.NOT_CHECKED, f"{', '.join(missing)}: look at that first"
        else:
            found = await _looked_at(rule, ground, seconds)
        findings[name] = Finding(name, rule.about, *found)
    return Report(environment.name, tuple(findings.values()))


_IN_THE_WAY = (Verdict.BROKEN, Verdict.NOT_CHECKED)


async def _looked_at(rule: Rule, ground: Ground, seconds: float) -> tuple[Verdict, str]:
    found = await outcome(asyncio.wait_for(rule.look(ground), seconds))
    if isinstance(found, str):
        return Verdict.KEPT, found
    if isinstance(found, NotApplicableError):
        return Verdict.NOT_APPLICABLE, str(found)
    if isinstance(found, ViolationError):
        return Verdict.BROKEN, str(found)
    if isinstance(found, TimeoutError):
        return Verdict.BROKEN, f"it took longer than {seconds:g} s"
    return Verdict.BROKEN, f"it raised {found!r}"
