"""trackio: a local database, or a Space; its own environment variables are heeded."""

import os
from collections.abc import Mapping
from uuid import uuid4

from retrograde.environments.extras import extra
from retrograde.loggers.logger import PROJECT, About


class Trackio:
    """Logs to a run of a project."""

    def __init__(self, about: About) -> None:
        """Begin a run, or go on with it; trackio knows a run by its name."""
        trackio = extra("trackio", "trackio")
        self.run_id = about.run_id or f"{about.name}-{uuid4().hex[:6]}"  # names are shared
        self._trackio = trackio
        self._run = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", PROJECT),
            name=self.run_id,
            resume="never" if about.run_id is None else "allow",
            config=dict(about.settings),
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def log(self, step: int, line: Mapping[str, float]) -> None:
        """One line."""
        self._run.log(dict(line), step=step)

    def close(self) -> None:
        """Write what is still under way."""
        self._run.finish()
