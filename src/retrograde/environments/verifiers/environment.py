"""Environments written for the library verifiers (0.1), by their name."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from retrograde.data.message import ContextPolicy
from retrograde.data.places import found_at
from retrograde.data.seeds import derived
from retrograde.environments.extras import extra
from retrograde.environments.protocol import Forking, Split
from retrograde.environments.tasks import numbered_task, parts_of_task
from retrograde.environments.verifiers.episode import VerifiersEpisode

HELD_OUT = 10
"""One in so many tasks is held out where the environment has no tasks of its own for that."""


class OtherKindError(ValueError):
    """The environment, or the library, is of a kind that cannot be played here."""


@dataclass(frozen=True)
class Verifiers:
    """An environment of the library verifiers, by its name or by FILE.py:FUNCTION."""

    name = "verifiers"
    offers = frozenset[Any]()
    vocabulary = None

    environment: str = ""
    """The name of an installed environment, or FILE.py:NAME of a function that loads one."""
    arguments: str = "{}"
    """What it is loaded with, as a JSON object."""
    calls: Literal["hermes", "llama3", "pythonic", "qwen3_coder", "react"] = "hermes"
    """How the policy writes calls, where the environment has tools."""
    max_turns: int = 0
    """Answers in an episode; 0 takes the environment's own limit, or 16 if it has none."""
    deterministic: bool = False
    """Whether nothing in it is chance, so that episodes can be continued twice from one point."""
    success_return: float = 1.0
    """An episode that earns this is a success."""
    max_new_tokens: int = 256
    """Tokens of an answer."""
    context: ContextPolicy = "full"
    """What the policy is shown of the past."""

    def __post_init__(self) -> None:
        if self.max_turns < 0:
            raise ValueError(f"max_turns: 0 or more is needed, got {self.max_turns}")
        if not self.rows["train"] or not self.rows["test"]:
            raise ValueError(f"verifiers:{self.environment}: it has no tasks to train on and test")

    @cached_property
    def world(self) -> Any:
        """The environment itself.

        Raises:
            ValueError: there is none of that name, or it is of another kind.
        """
        library = extra("verifiers", "verifiers")
        if not hasattr(library, "MultiTurnEnv"):
            raise OtherKindError(
                f"verifiers 0.1 is needed, got {library.__version__}, whose environments are "
                "programs that only its own servers run"
            )
        arguments = json.loads(self.arguments)
        if ".py:" in self.environment:
            world = found_at(self.environment, "environment")(**arguments)
        else:
            world = library.load_environment(self.environment, **arguments)
        if not isinstance(world, library.MultiTurnEnv):
            raise OtherKindError(
                f"verifiers:{self.environment}: a MultiTurnEnv is needed, as ToolEnv and "
                f"SingleTurnEnv are, got a {type(world).__name__}"
            )
        return world

    @cached_property
    def rows(self) -> Mapping[Split, Sequence[dict[str, Any]]]:
        """Its tasks; where it has none to test with, one in ten is held out, by its hash."""
        train = self.world.get_dataset().to_list()
        if self.world.build_eval_dataset() is not None:
            return {"train": train, "test": self.world.get_eval_dataset().to_list()}
        said = [json.dumps(row, sort_keys=True, default=str) for row in train]
        held = [derived("verifiers", one) % HELD_OUT == 0 for one in said]
        return {
            "train": [row for row, is_held in zip(train, held, strict=True) if not is_held],
            "test": [row for row, is_held in zip(train, held, strict=True) if is_held],
        }

    @property
    def forking(self) -> Forking:
        """Only what is deterministic can be continued twice, by being played again."""
        return Forking.REPLAY if self.deterministic else Forking.NONE

    @property
    def turn_limit(self) -> int:
        """An episode ends after this many answers at the latest."""
        return self.max_turns or (self.world.max_turns if self.world.max_turns > 0 else 16)

    def size(self, split: Split) -> int:
        """As many as there are rows."""
        return len(self.rows[split])

    def task(self, split: Split, index: int) -> str:
        """The task with this index, from 0 on."""
        if index >= self.size(split):
            raise ValueError(
                f"{self.name} has {self.size(split)} {split} tasks: no {split}-{index}"
            )
        return numbered_task(split, index)

    def gold(self, task: str) -> str:
        """A row's `answer` need not be what a policy would say."""
        raise LookupError(f"{self.name} does not know the right answer of task {task!r}")

    async def open(self, task: str, seed: int) -> VerifiersEpisode:  # noqa: ARG002 - it takes none
        """Start an episode, up to its first question."""
        split, index = parts_of_task(task, self.name)
        rows = self.rows["train" if split == "train" else "test"]
        if int(index) >= len(rows):
            raise ValueError(f"{self.name} has {len(rows)} {split} tasks: no {task}")
        return await VerifiersEpisode.started(self, task, rows[int(index)])

    def described(self) -> dict[str, Any]:
        """Its options, and what the named file holds."""
        options: dict[str, Any] = {
            option: getattr(self, option)
            for option in (
                *("environment", "arguments", "calls", "max_turns", "deterministic"),
                *("success_return", "max_new_tokens", "context"),
            )
        }
        file = Path(self.environment.rpartition(":")[0])
        text = file.read_text() if file.is_file() else ""
        return options | {"contents": {"code": derived(text)}}
