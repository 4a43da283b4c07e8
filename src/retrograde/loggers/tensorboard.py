"""TensorBoard: event files in `tensorboard/` of the run's directory."""

from collections.abc import Mapping
from typing import Any

from retrograde.environments.extras import extra
from retrograde.loggers.logger import About


class TensorBoard:
    """Writes scalars."""

    def __init__(self, about: About) -> None:
        """Begin, or go on; what a killed run wrote past the step it is resumed at is hidden."""
        extra("tensorboard", "tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        folder = about.folder / "tensorboard"
        purge = None if about.run_id is None else about.step + 1 if about.step else 0
        self._writer: Any = SummaryWriter(str(folder), purge_step=purge)
        self.run_id = folder.name

    def log(self, step: int, line: Mapping[str, float]) -> None:
        """Write each figure as a scalar of its name, at once."""
        for name, value in line.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
