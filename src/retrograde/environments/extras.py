"""Optional packages: found when they are needed, and named with the command that installs them."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

COMMANDS = {"bfcl": "pip install --no-deps bfcl-eval"}
"""What installs an extra, where `pip install 'retrograde[NAME]'` does not."""


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
    check_extra(module, name)
    return import_module(module)


def check_extra(module: str, name: str) -> None:
    """See that an optional package is there, without importing it.

    Raises:
        MissingExtraError: it is not; the message holds the command that installs it.
    """
    if not is_installed(module):
        raise MissingExtraError(f"{module} is needed and not installed: {command(name)}")


def is_installed(module: str) -> bool:
    """Whether a module's package is there."""
    return find_spec(module.partition(".")[0]) is not None


def command(name: str) -> str:
    """What installs an extra."""
    return COMMANDS.get(name, f"pip install 'retrograde[{name}]'")
