"""An episode as text, for people and for documentation; it can be played again from it."""

from collections.abc import Sequence

from retrograde.data.message import Message
from retrograde.environments.protocol import Environment, Observation

WIDTH = 10
"""Columns of the name of who speaks."""
POLICY = "policy"


async def transcript(environment: Environment, task: str, seed: int, answers: Sequence[str]) -> str:
    """What is said when these answers are given, until the episode ends or they run out.

    Each piece begins with who says it; further lines of it are indented to the same column.
    """
    episode = await environment.open(task, seed)
    try:
        pieces = [_said(message) for message in episode.opening()]
        for answer in answers:
            pieces.append(_piece(POLICY, answer))
            observation = await episode.act(answer)
            pieces += [_said(message) for message in observation.messages]
            earned = _earned(observation)
            pieces += [_piece("", f"[{earned}]")] if earned else []
            if observation.end is not None:
                break
    finally:
        await episode.close()
    return "\n".join(pieces) + "\n"


def answers_in(text: str) -> list[str]:
    """The policy's answers in a transcript, word for word."""
    answers: list[list[str]] = []
    speaking = ""
    for line in text.splitlines():
        who = line[:WIDTH].strip()
        speaking = who or speaking
        said = line[WIDTH:]
        if who == POLICY:
            answers.append([said])
        elif speaking == POLICY and not (said.startswith("[") and said.endswith("]")):
            answers[-1].append(said)
    return ["\n".join(lines) for lines in answers]


def _said(message: Message) -> str:
    return _piece(message.role, message.content)


def _piece(who: str, text: str) -> str:
    first, *more = text.split("\n")
    head = f"{who:{WIDTH}}{first}".rstrip()
    return "\n".join([head, *(f"{'':{WIDTH}}{line}".rstrip() for line in more)])


def _earned(observation: Observation) -> str:
    parts = [f"reward {observation.reward:g}"] if observation.reward else []
    if observation.end is not None:
        parts = [f"reward {observation.reward:g}", str(observation.end)]
    if observation.score is not None:
        parts.append(f"score {observation.score:.2f}")
    return ", ".join(parts)
