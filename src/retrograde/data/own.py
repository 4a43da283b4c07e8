"""What users bring themselves: `FILE.py:NAME` or `package.module:NAME`."""

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any


def own(name: str, kind: str, known: Iterable[str]) -> Any:
    """What is called so in a file or module.

    Args:
        name: `FILE.py:NAME` or `package.module:NAME`.
        kind: what is looked for, for the message.
        known: what could be named instead.

    Raises:
        ValueError: it is not there.
    """
    place, _, attribute = name.rpartition(":")
    found: Any = getattr(_module(place, f"{kind} {name!r}", known), attribute, None)
    if found is None:
        raise ValueError(f"{kind} {name!r}: there is no {attribute!r} in {place}")
    return found


def _module(place: str, wanted: str, known: Iterable[str]) -> ModuleType:
    if not place.endswith(".py"):
        try:
            return import_module(place)
        except ModuleNotFoundError as cause:
            raise ValueError(
                f"{wanted}: known are {', '.join(known)}, FILE.py:NAME and "
                f"package.module:NAME; {place!r} could not be imported: {cause}"
            ) from cause
    path = Path(place)
    if not path.is_file():
        raise ValueError(f"{wanted}: there is no file {place}")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{wanted}: {place} is no Python file")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
