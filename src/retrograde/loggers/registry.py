"""Loggers by name. Each is imported when it is asked for."""

from importlib import import_module
from typing import NamedTuple

from retrograde.environments.extras import check_extra
from retrograde.loggers.logger import About, Logger


class Entry(NamedTuple):
    """Where a logger is."""

    module: str
    """In this package; also the name of its extra."""
    kind: str
    """The class."""
    needs: str
    """The package that has to be installed."""


LOGGERS = {
    "tensorboard": Entry("tensorboard", "TensorBoard", "tensorboard"),
    "trackio": Entry("trackio", "Trackio", "trackio"),
    "wandb": Entry("wandb", "WeightsAndBiases", "wandb"),
    "mlflow": Entry("mlflow", "MLflow", "mlflow"),
}


def loggers_named(text: str) -> tuple[str, ...]:
    """Names of loggers, from a list with commas.

    Raises:
        ValueError: one is unknown, or what it needs is not installed.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in LOGGERS:
            raise ValueError(f"--log {name}: no such logger; known: {', '.join(LOGGERS)}")
        check_extra(LOGGERS[name].needs, LOGGERS[name].module)
    return names


def opened(name: str, about: About) -> Logger:
    """A logger of that name, that was begun or goes on."""
    entry = LOGGERS[name]
    module = import_module(f"retrograde.loggers.{entry.module}")
    logger: Logger = getattr(module, entry.kind)(about)
    return logger
