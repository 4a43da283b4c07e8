"""verl's own functions. `make setup-oracle` installs them; nothing here runs without them."""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="session")
def verl() -> ModuleType:
    """`verl.trainer.ppo.core_algos`, where its advantages and losses are."""
    return importlib.import_module("verl.trainer.ppo.core_algos")


@pytest.fixture(scope="session")
def actor_config() -> Callable[..., Any]:
    """Makes the record that verl's losses read their clip bounds from."""
    config = importlib.import_module("verl.workers.config").ActorConfig

    def made(low: float, high: float, dual: float) -> Any:
        return config(
            strategy="fsdp",
            rollout_n=1,
            ppo_mini_batch_size=1,
            ppo_micro_batch_size_per_gpu=1,
            clip_ratio_low=low,
            clip_ratio_high=high,
            clip_ratio_c=dual,
        )

    return made
