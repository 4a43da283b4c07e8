"""Weights & Biases; its own environment variables (WANDB_PROJECT, WANDB_MODE, ...) are heeded."""

import os
from collections.abc import Mapping

from retrograde.environments.extras import extra
from retrograde.loggers.logger import PROJECT, About


class WeightsAndBiases:
    """Logs to a run of the user's project."""

    def __init__(self, about: About) -> None:
        """Begin a run, or go on with it."""
        wandb = extra("wandb", "wandb")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=about.name,
            id=about.run_id,
            resume="allow",
            dir=str(about.folder),
            config=dict(about.settings),
        )
        self.run_id: str = self._run.id

    def log(self, step: int, line: Mapping[str, float]) -> None:
        """One line; steps that the run has already are left as they are."""
        self._run.log(dict(line), step=step)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()
