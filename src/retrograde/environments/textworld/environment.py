"""The environment `textworld`."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from retrograde.data.offer import Offer
from retrograde.environments.extras import extra
from retrograde.environments.protocol import Forking, Split
from retrograde.environments.tasks import numbered_task, parts_of_task
from retrograde.environments.textworld.alfworld import Unseen, data_folder, game_files
from retrograde.environments.textworld.episode import Terms, TextWorldEpisode
from retrograde.environments.textworld.game import game_file
from retrograde.environments.textworld.generation import LEVELS


@dataclass(frozen=True)
class TextWorld:
    """Text games: cooking, treasure, coins, a house; and ALFWorld's, where they are."""

    name = "textworld"
    forking = Forking.REPLAY
    vocabulary = None

    kind: Literal["cooking", "treasure", "coin", "house", "alfworld"] = "cooking"
    """Which games. alfworld needs $ALFWORLD_DATA."""
    level: int = 1
    """How hard: cooking 1 to 5, treasure 1 to 30, coin 1 to 100, house 1 to 3."""
    admissible: bool = True
    """Whether what can be done is listed each turn."""
    reward: Literal["win", "score"] = "win"
    """win: 1 at the end of a game that is won. score: what each turn adds to the share of all
    points."""
    games: int = 100
    """Games in each split; each takes seconds to make, once. ALFWorld has its own number."""
    alfworld_test: Unseen = "valid_unseen"
    """Which of ALFWorld's two sets the test split is."""
    turn_limit: int = 50
    """Commands at most."""
    max_new_tokens: int = 24
    """Tokens an answer may take, for a tokenizer with about one token a word."""
    context: Literal["full", "drop_thinking", "window", "markov"] = "full"
    """What the policy is shown of the past."""

    def __post_init__(self) -> None:
        for field in ("games", "turn_limit", "max_new_tokens"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field}: at least 1 is needed, got {getattr(self, field)}")
        extra("textworld", "textworld")
        if self.kind == "alfworld":
            data_folder()
            return
        if not 1 <= self.level <= LEVELS[self.kind]:
            raise ValueError(f"level: got {self.level}, {self.kind} has 1 to {LEVELS[self.kind]}")

    @property
    def success_return(self) -> float:
        """1, with room for rounding where it is a sum of shares."""
        return 1.0 if self.reward == "win" else 1 - 1e-6

    @property
    def offers(self) -> frozenset[Offer]:
        """The score, and with `score` a reward each turn."""
        turns = {Offer.TURN_REWARDS} if self.reward == "score" else set[Offer]()
        return frozenset({Offer.SCORES, *turns})

    def size(self, split: Split) -> int:
        """As many as there are games."""
        if self.kind == "alfworld":
            return len(game_files(split, self.alfworld_test))
        return self.games

    def task(self, split: Split, index: int) -> str:
        """The task with this index, from 0 on."""
        if index >= self.size(split):
            raise ValueError(f"textworld has {self.size(split)} {split} tasks: no {split}-{index}")
        return numbered_task(split, index)

    def gold(self, task: str) -> str:
        """There is none: a game is won by many commands."""
        raise LookupError(f"textworld has no single answer that ends {task} rightly")

    async def open(self, task: str, seed: int) -> TextWorldEpisode:  # noqa: ARG002 - no chance
        """Start an episode."""
        split, index = _parts(task)
        if index >= self.size(split):
            raise ValueError(f"textworld has {self.size(split)} {split} tasks: no {task}")
        terms = Terms(self.reward, self.admissible, self.turn_limit, self.kind != "alfworld")

        def started() -> TextWorldEpisode:
            return TextWorldEpisode(task, self._game(split, index), terms)

        return await asyncio.to_thread(started)

    def _game(self, split: Split, index: int) -> Path:
        if self.kind == "alfworld":
            return game_files(split, self.alfworld_test)[index]
        return game_file(self.kind, self.level, split, index)


def _parts(task: str) -> tuple[Split, int]:
    split, index = parts_of_task(task, "textworld")
    return "train" if split == "train" else "test", int(index)
