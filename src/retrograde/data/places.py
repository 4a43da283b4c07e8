"""Things of the user's own, named by where they are: `FILE.py:NAME` or `package.module:NAME`."""

import sys
import traceback
from functools import lru_cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

MISTAKES = (SyntaxError, ImportError, NameError, AttributeError, TypeError)
"""What is raised while a file is run that was mistyped, or needs what is not there."""


def found_at(name: str, what: str, known: str = "") -> Any:
    """What has that name in its file or module.

    Args:
        name: `FILE.py:NAME` or `package.module:NAME`.
        what: what it is to be, for the message.
        known: names that are understood without a place, for the message.

    Raises:
        ValueError: there is no such file, module or name, or it has a mistake in it.
    """
    place, _, attribute = name.rpartition(":")
    missing = object()
    asked = f"{what} {name!r}"
    try:
        module = _module(place, asked, known)
    except MISTAKES as cause:
        raise ValueError(f"{asked} cannot be loaded: {_said(cause)}") from cause
    found: Any = getattr(module, attribute, missing)
    if found is missing:
        raise ValueError(f"{asked}: there is no {attribute!r} in {place}")
    return found


def _module(place: str, asked: str, known: str) -> ModuleType:
    if not place.endswith(".py"):
        try:
            return import_module(place)
        except (ModuleNotFoundError, ValueError) as cause:  # the latter: an empty name
            if isinstance(cause, ModuleNotFoundError) and not _is_of(place, cause.name):
                raise
            raise ValueError(
                f"{asked}: known are {known}{', ' if known else ''}FILE.py:NAME and "
                f"package.module:NAME; {place!r} could not be imported: {cause}"
            ) from cause
    path = Path(place)
    if not path.is_file():
        raise ValueError(f"{asked}: there is no file {place}")
    return _loaded(path.resolve(), path.stat().st_mtime_ns)


def _is_of(place: str, missing: str | None) -> bool:
    """Whether the module that is missing is the one that was asked for, or holds it."""
    return missing is not None and f"{place}.".startswith(f"{missing}.")


@lru_cache(64)
def _loaded(path: Path, changed: int) -> ModuleType:  # noqa: ARG001 - a changed file is another
    """A file as a module; run once, so that all that is taken from it shares its state."""
    name = f"_own_{path.stem}"  # a file called random.py must not become everybody's `random`
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _said(cause: BaseException) -> str:
    """Where a mistake is, in the file that was being run last, and what it is."""
    kind = type(cause).__name__
    if isinstance(cause, SyntaxError):
        return f"{cause.filename}, line {cause.lineno}: {kind}: {cause.msg}"
    run = [
        frame
        for frame in traceback.extract_tb(cause.__traceback__)
        if frame.filename != __file__ and not frame.filename.startswith("<frozen")
    ]
    modules = [frame for frame in run if frame.name == "<module>"]
    place = f"{modules[-1].filename}, line {modules[-1].lineno}: " if modules else ""
    return f"{place}{kind}: {cause}"
