"""One attempt at a game."""

import asyncio
import json
import random
import re
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from retrograde.data.message import Message, spoken
from retrograde.data.tree import End
from retrograde.environments.extras import extra
from retrograde.environments.plain import PlainEpisode
from retrograde.environments.protocol import Observation
from retrograde.environments.textworld.alfworld import give_names

RULES = (
    "You play a text game. Each turn, say exactly one command, on a line of its own, and you are "
    "told what happens."
)
SHOWN = "Only the commands that are listed can be said."
WORDED = "Commands are worded like this:"
COMMANDS = "Commands:"
IMPOSSIBLE = "Nothing happens."
SEED = 1
"""Of the emulator; unless it is given one that is not 0, it takes the time of day."""
CARELESS = 0.2
"""How often the teacher says any of the possible commands."""

_STATUS = re.compile(r"\n>\s*(-= .* =-\S*)?\s*\Z")
"""The prompt and the status line that stand behind everything a game says."""
_GAPS = re.compile(r"\n\s*\n\s*")
_OBJECTIVE = re.compile(r"^Your task is to: .*$", re.MULTILINE)
_PLACE = re.compile(r"\{[^}]*\}")
_MARGIN = re.compile(r"\A[\s>*`'\"-]+|[\s.*`'\"!]+\Z")


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds in an episode, whatever its game."""

    reward: Literal["win", "score"]
    admissible: bool
    turns: int
    planned: bool
    """Whether the game knows what would be right now."""


class TextWorldEpisode(PlainEpisode):
    """One attempt. Games have no chance in them."""

    def __init__(self, task: str, path: Path, terms: Terms) -> None:
        """Start the game, which takes a while."""
        self.task = task
        self.terms = terms
        self.used = 0
        """Turns so far."""
        self.over = False
        self._env = _loaded(path, planned=terms.planned)
        self._state: Mapping[str, Any] = self._env.reset()

    @property
    def commands(self) -> tuple[str, ...]:
        """What can be done now."""
        return tuple(self._state["admissible_commands"])

    @property
    def score(self) -> float:
        """Points made, as a share of all there are; 1 when the game is won."""
        if self._state["won"]:
            return 1.0
        return (self._state.get("score") or 0) / (self._state.get("max_score") or 1)

    def opening(self) -> tuple[Message, ...]:
        """Rules and objective; where one is."""
        told = _cleaned(self._state["feedback"])
        objective, here = self._state.get("objective"), self._state.get("description")
        if objective is None and (found := _OBJECTIVE.search(told)):
            objective, here = found[0], told.replace(found[0], "").strip()
        rules = f"{RULES} {SHOWN}" if self.terms.admissible else f"{RULES}\n{self._wording()}"
        system = Message("system", f"{rules}\n\n{objective or ''}".strip(), lasting=True)
        return system, self._heard(_cleaned(here or told))

    async def act(self, text: str) -> Observation:
        """Say the first line that is a command; a turn without one changes nothing."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        self.used += 1
        before, command = self.score, self._command(text)
        if command is not None:
            self._state, _, _ = await asyncio.to_thread(self._env.step, command)
        won, lost = self._state["won"], self._state["lost"]
        end = End.FINISHED if won or lost else None
        if end is None and self.used >= self.terms.turns:
            end = End.TRUNCATED
        self.over = end is not None
        reward = self.score - before if self.terms.reward == "score" else float(won)
        heard = IMPOSSIBLE if command is None else _cleaned(self._state["feedback"])
        return Observation(
            () if end else (self._heard(heard),),
            reward,
            end,
            self.score,
            events=("action/impossible",) if command is None else (),
        )

    def state_key(self) -> Hashable:
        """All facts of the world, and the points made."""
        facts = frozenset(map(str, self._state["facts"]))
        return self.task, self.used, self.score, facts

    def demonstrate(self, seed: int) -> str:
        """What a teacher says who knows the way and now and then says any command at all.

        Raises:
            LookupError: the game does not know the way from here.
        """
        chance = random.Random(seed)
        if not self.terms.planned or not (way := self._state["policy_commands"]):
            raise LookupError(f"{self.task}: the game does not know the way from here")
        return chance.choice(self.commands) if chance.random() < CARELESS else way[0]

    async def close(self) -> None:
        """End the game."""
        self._env.close()

    def _command(self, text: str) -> str | None:
        known = {" ".join(command.lower().split()): command for command in self.commands}
        lines = (
            " ".join(_MARGIN.sub("", line).lower().split()) for line in spoken(text).split("\n")
        )
        return next((known[line] for line in lines if line in known), None)

    def _heard(self, text: str) -> Message:
        if self.terms.admissible:
            text = f"{text}\n{COMMANDS} {', '.join(self.commands)}"
        return Message("user", text)

    def _wording(self) -> str:
        templates = {_PLACE.sub("...", one) for one in self._state["command_templates"]}
        return f"{WORDED} {', '.join(sorted(templates))}"


def _loaded(path: Path, *, planned: bool) -> Any:
    textworld: Any = extra("textworld", "textworld")
    infos = textworld.EnvInfos(
        admissible_commands=True,
        command_templates=True,
        description=True,
        facts=True,
        lost=True,
        max_score=True,
        objective=True,
        policy_commands=planned,
        score=True,
        won=True,
    )
    if path.suffix == ".tw-pddl":
        env: Any = import_module("textworld.envs").PddlEnv(infos)
        env.load(json.loads(path.read_text(encoding="utf-8")))
        give_names(env)
        return env
    # The emulator knows a list of published games by heart, and warns that this is none of them.
    warnings.filterwarnings("ignore", message=r"Game '.*' is not fully supported")
    env = textworld.start(str(path), infos)
    env.seed(SEED)
    return env


def _cleaned(text: str) -> str:
    return _GAPS.sub("\n\n", _STATUS.sub("", text)).strip()
