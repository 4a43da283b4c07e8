"""MLflow: the server MLFLOW_TRACKING_URI names, or `mlruns/` in the run's directory."""

import os
import time
from collections.abc import Mapping
from typing import Any, cast

from retrograde.environments.extras import extra
from retrograde.loggers.logger import PROJECT, About

CLASHING = {"rows": "rows/all"}
"""Plain files keep a metric under its name, so that no name may be the beginning of another."""
LONGEST = 500
"""Letters of a parameter's value that every MLflow takes."""


class MLflow:
    """Logs to a run of an experiment."""

    def __init__(self, about: About) -> None:
        """Begin a run, or go on with it."""
        mlflow = extra("mlflow", "mlflow")
        if "MLFLOW_TRACKING_URI" not in os.environ:
            # Newer ones ask that whoever wants plain files says so.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        uri = os.environ.get("MLFLOW_TRACKING_URI", (about.folder.absolute() / "mlruns").as_uri())
        self._metric = mlflow.entities.Metric
        self._client = mlflow.MlflowClient(uri)
        if about.run_id is None:
            self.run_id = self._begun(about)
        else:
            self.run_id = about.run_id
            self._client.update_run(self.run_id, status="RUNNING")

    def _begun(self, about: About) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        found = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if found is None else found.experiment_id
        run_id: str = self._client.create_run(experiment, run_name=about.name).info.run_id
        for key, value in _leaves(about.settings):
            self._client.log_param(run_id, key, str(value)[:LONGEST])
        return run_id

    def log(self, step: int, line: Mapping[str, float]) -> None:
        """One line."""
        now = int(time.time() * 1000)
        metrics = [
            self._metric(CLASHING.get(name, name), float(value), now, step)
            for name, value in line.items()
        ]
        self._client.log_batch(self.run_id, metrics=metrics)

    def close(self) -> None:
        """Say that it is over."""
        self._client.set_terminated(self.run_id)


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in tree.items():
        if isinstance(value, dict):
            found += _leaves(cast("dict[str, Any]", value), f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found
