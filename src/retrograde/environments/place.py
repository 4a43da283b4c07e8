"""What a user names by where it is: `FILE.py:NAME` or `package.module:NAME`."""

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any


def found(name: str, what: str, otherwise: str = "") -> Any:
    """What is there.

    Args:
        name: the place, a colon, and a name in it.
        what: what is looked for, for messages.
        otherwise: what else could have been meant, for messages.

    Raises:
        ValueError: there is no such place, or nothing of that name in it.
    """
    place, _, attribute = name.rpartition(":")
    module = _module(place, f"{what} {name!r}", otherwise)
    if not hasattr(module, attribute):
        raise ValueError(f"{what} {name!r}: there is no {attribute!r} in {place}")
    return getattr(module, attribute)


def _module(place: str, asked: str, otherwise: str) -> ModuleType:
    if not place.endswith(".py"):
        try:
            return import_module(place)
        except (ModuleNotFoundError, ValueError) as cause:
            raise ValueError(
                f"{asked}: known are {otherwise}FILE.py:NAME and package.module:NAME; {place!r} "
                f"could not be imported: {cause}"
            ) from cause
    path = Path(place)
    if not path.is_file():
        raise ValueError(f"{asked}: there is no file {place}")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{asked}: {place} is no Python file")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
