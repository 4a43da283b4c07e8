"""Optional packages: found when they are needed, and named with the command that installs them."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


class MissingExtraError(ValueError):
    """An optional package is not installed."""


def extra(module: str, name: str) -> ModuleType:
    """Import an optional package.

    Args:
        module: what is imported.
        name: the extra of Retrograde that brings it.

    Raises:
        MissingExtraError: it is not installed; the message holds the command that does.
    """
    if find_spec(module.partition(".")[0]) is None:
        raise MissingExtraError(
            f"{module} is needed and not installed: pip install 'retrograde[{name}]'"
        )
    return import_module(module)
