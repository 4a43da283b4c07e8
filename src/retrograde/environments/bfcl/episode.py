"""One attempt at a case: a user who asks, one message after the other, and tools."""

import random
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Literal, Self

from retrograde.data.message import Message
from retrograde.data.tree import End
from retrograde.environments.bfcl.case import Case, Request
from retrograde.environments.bfcl.function import Documentation, Function
from retrograde.environments.bfcl.reading import Call, Form, Malformed, calls_in, said
from retrograde.environments.bfcl.simulation import Simulation, unknown
from retrograde.environments.bfcl.verdict import Unanswerable, Verdict, judged, truths_of
from retrograde.environments.plain import PlainEpisode
from retrograde.environments.protocol import Observation

TASK = (
    "You do what a user asks for by calling functions. Call as many as it takes; what they return "
    "is shown to you. When all of the user's last message is done, answer without a call, and the "
    "user goes on. Do the same where it cannot be done: if a function is missing or the user has "
    "left out a value that a function needs, say so and call nothing."
)
HOW: dict[Form, str] = {
    "hermes": (
        "A call is written like this, and there may be several in an answer:\n"
        '<tool_call>\n{"name": FUNCTION, "arguments": {PARAMETER: VALUE}}\n</tool_call>'
    ),
    "pythonic": (
        "An answer that calls is a list of calls and nothing else: "
        "[function(parameter=value), other()]"
    ),
}
LISTED = "The functions:"
DONE = "Done."
MALFORMED = "This call was not understood, and not made: "
FORGETFUL = 0.2
"""How often the teacher leaves out the last of the right calls."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds in an episode, whatever its case."""

    calls: Form
    reward: Literal["final", "progress"]
    unanswerable: Unanswerable
    documentation: Documentation
    listing: Literal["template", "text"]
    answers: int
    """Answers to one message at most."""
    turns: int
    """Answers at most."""


class BfclEpisode(PlainEpisode):
    """One attempt. Its simulators' chance is a part of the case, so a fork needs no seed."""

    def __init__(self, task: str, case: Case, terms: Terms) -> None:
        """Load the simulators."""
        self.task = task
        self.case = case
        self.terms = terms
        self.simulation = Simulation(case)
        self.history: tuple[Hashable, ...] = ()
        """All that has been called so far, and where messages were done with."""
        self.results: tuple[str, ...] = ()
        """What has been returned so far."""
        self.called = 0
        """Results about the present message."""
        self.answers = 0
        """Answers to the present message."""
        self.used = 0
        """Answers so far."""
        self.verdicts: tuple[Verdict, ...] = ()
        """On each message that is done with."""
        self.over = False

    @property
    def request(self) -> Request:
        """What the user asks for now."""
        return self.case.requests[len(self.verdicts)]

    @property
    def functions(self) -> frozenset[str]:
        """Names of what may be called by now: what has been documented."""
        given = self.case.requests[: len(self.verdicts) + 1]
        return frozenset(function.name for request in given for function in request.functions)

    @property
    def score(self) -> float:
        """Share of the user's messages about which all was done, and rightly."""
        return sum(verdict.right for verdict in self.verdicts) / len(self.case.requests)

    def opening(self) -> tuple[Message, ...]:
        """Rules and functions, and what the user asks for first."""
        first, terms = self.case.requests[0], self.terms
        tools = _tools(first.functions, terms.documentation)
        text = f"{TASK}\n\n{HOW[terms.calls]}"
        if terms.listing == "text":
            text, tools = "\n".join([f"{text}\n\n{LISTED}", *tools]), ()
        return Message("system", text, lasting=True, tools=tools), Message("user", first.text)

    async def act(self, text: str) -> Observation:
        """Call what is to be called; an answer without calls brings the user's next message."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        self.used += 1
        self.answers += 1
        calls = calls_in(text, self.terms.calls)
        if not calls:
            return self._next()
        messages: list[Message] = []
        events: list[str] = []
        for call in calls:
            message, event = self._called(call)
            messages.append(message)
            events += [event] if event else []
        if self.answers >= self.terms.answers or self.used >= self.terms.turns:
            return self._ended(End.TRUNCATED, 0.0, events)
        return Observation(tuple(messages), score=self.score, events=tuple(events))

    def _called(self, call: Call | Malformed) -> tuple[Message, str | None]:
        if isinstance(call, Malformed):
            self.history += (call.reason,)
            return Message("user", f"{MALFORMED}{call.reason}"), "call/malformed"
        known = call.name in self.functions
        result = self.simulation.call(call) if known else unknown(call.name)
        self.history += (said([call], "pythonic"),)
        self.results += (result.text,)
        self.called += 1
        return Message("tool", result.text, name=call.name), result.event

    def _next(self) -> Observation:
        truth = truths_of(self.case)[len(self.verdicts)]
        verdict = judged(truth, self.simulation, self.results, self.called, self.terms.unanswerable)
        self.verdicts += (verdict,)
        self.history += (len(self.verdicts),)
        self.called = self.answers = 0
        reward = verdict.right / len(self.case.requests)
        if len(self.verdicts) == len(self.case.requests):
            return self._ended(End.FINISHED, reward)
        if self.used >= self.terms.turns:
            return self._ended(End.TRUNCATED, reward)
        request, earned = self.request, reward if self.terms.reward == "progress" else 0.0
        added = _tools(request.functions, self.terms.documentation)
        text = "\n".join([*added, request.text])
        return Observation((Message("user", text),), reward=earned, score=self.score)

    def _ended(self, end: End, reward: float, events: Iterable[str] = ()) -> Observation:
        self.over = True
        if self.terms.reward == "final":
            reward = float(self.score == 1)
        measures = {
            "progress": self.score,
            "state": sum(v.state for v in self.verdicts) / len(self.case.requests),
            "response": sum(v.response for v in self.verdicts) / len(self.case.requests),
        }
        return Observation(
            (), reward, end, self.score, events=tuple(events), measures=tuple(measures.items())
        )

    def fork(self, seed: int) -> Self:  # noqa: ARG002 - there is no chance to draw
        """An independent copy."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        copied.simulation = self.simulation.copy()
        return copied

    def state_key(self) -> Hashable:
        """Everything called so far, and when: other states with the same law have other keys."""
        return self.task, self.history, self.answers, self.used

    def demonstrate(self, seed: int) -> str:
        """What a teacher says who knows the right calls and now and then forgets the last."""
        truth = self.request.truth if self.answers == 0 else ()
        if len(truth) > 1 and random.Random(seed).random() < FORGETFUL:
            truth = truth[:-1]
        return answer(truth, self.simulation, self.terms.calls)


def answer(calls: Iterable[Call], simulation: Simulation, form: Form) -> str:
    """An answer that makes these calls, every argument named; without any, one that ends a turn."""
    return said([simulation.named(call) for call in calls], form) or DONE


def _tools(functions: Iterable[Function], documentation: Documentation) -> tuple[str, ...]:
    return tuple(function.tool(documentation) for function in functions)
