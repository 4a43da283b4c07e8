"""BFCL's simulators: file system, vehicle, stocks, travel, tickets, messages, posts and sums."""

import copy
import decimal
import inspect
import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Self, cast

from retrograde.environments.bfcl.case import MODULES, Case
from retrograde.environments.bfcl.reading import Call

_SOURCE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_STATELESS = "MathAPI"
FAULT = "Error during execution: "
"""BFCL's words before what went wrong."""
FAULTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
"""What simulators raise when they are given what they were not written for."""

Items = Mapping[str, Any]

MOST_DIGITS = 1000
"""More places than this are not computed: the sum would not end."""
MOST_BITS = 10_000
"""Neither are powers with more."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a call."""

    text: str
    event: str | None = None
    """`call/unknown` or `call/error`; None if it was done."""


class Simulation:
    """The simulators of a case. Only its public methods can be called, by name."""

    def __init__(self, case: Case) -> None:
        """Load them as the case begins."""
        self._instances: dict[str, Any] = {name: _loaded(name, case) for name in case.classes}

    def call(self, call: Call) -> Result:
        """Call a function; whatever is wrong with it is told."""
        owner = self._owner(call.name)
        if owner is None:
            return unknown(call.name)
        try:
            bound = _signatures(owner)[call.name].bind(*call.positional, **call.arguments)
        except TypeError as fault:
            return Result(f"{FAULT}{call.name}: {fault}", "call/error")
        if owner == _STATELESS and (reason := _endless(call.name, bound.arguments)):
            return Result(f"{FAULT}{call.name}: {reason}", "call/error")
        method = getattr(self._instances[owner], call.name)
        try:
            with _precision(owner):
                text = _text(method(*bound.args, **bound.kwargs))
        except FAULTS as fault:
            return Result(f"{FAULT}{fault}", "call/error")
        return Result(text, "call/error" if text.startswith('{"error"') else None)

    def named(self, call: Call) -> Call:
        """The same call with every argument named.

        Raises:
            LookupError: there is no such function.
            TypeError: it takes other arguments.
        """
        owner = self._owner(call.name)
        if owner is None:
            raise LookupError(f"there is no function {call.name!r}")
        bound = _signatures(owner)[call.name].bind(*call.positional, **call.arguments)
        return Call(call.name, bound.arguments)

    def _owner(self, name: str) -> str | None:
        return next((owner for owner in self._instances if name in _signatures(owner)), None)

    def state(self) -> Mapping[str, Mapping[str, Any]]:
        """Attributes of each simulator that are not private, by class; not copied."""
        attributes = {name: cast("Items", vars(one)) for name, one in self._instances.items()}
        return {
            name: {key: value for key, value in items.items() if not key.startswith("_")}
            for name, items in attributes.items()
        }

    def copy(self) -> Self:
        """An independent copy, random generators included."""
        return copy.deepcopy(self)


def unknown(name: str) -> Result:
    """What is told of a function that there is not."""
    return Result(f"{FAULT}there is no function {name!r}", "call/unknown")


def _loaded(name: str, case: Case) -> Any:
    instance = _class(name)()
    if name == _STATELESS:
        return instance
    instance._load_scenario(  # noqa: SLF001 - there is no other way to load one
        copy.deepcopy(case.start.get(name, {})), long_context=case.long_context
    )
    # Some hold parts of their module's own tables, and would change them for everyone.
    return copy.deepcopy(instance)


@lru_cache
def _class(name: str) -> Callable[[], Any]:
    return getattr(import_module(f"{_SOURCE}.{MODULES[name]}"), name)


@lru_cache
def _signatures(name: str) -> Mapping[str, inspect.Signature]:
    methods = inspect.getmembers(_class(name)(), predicate=inspect.ismethod)
    return {key: inspect.signature(one) for key, one in methods if not key.startswith("_")}


@contextmanager
def _precision(owner: str) -> Generator[None]:
    """Keep the precision that a sum asks for from outliving it."""
    if owner != _STATELESS:
        yield
        return
    mpmath: Any = import_module("mpmath")
    with decimal.localcontext(), mpmath.workdps(mpmath.mp.dps):
        yield


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except TypeError:  # some numbers are of kinds that JSON has not
            return str(value)  # pyright: ignore[reportUnknownArgumentType]
    return str(value)


def _endless(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Why a sum is not to be done; None if it is."""
    for places in ("precision", "decimal_places"):
        value = arguments.get(places)
        if isinstance(value, int | float) and abs(value) > MOST_DIGITS:
            return f"{places}: at most {MOST_DIGITS} is computed, got {value}"
    base, exponent = arguments.get("base"), arguments.get("exponent")
    if name == "power" and isinstance(base, int) and isinstance(exponent, int):
        bits = base.bit_length() * abs(exponent)
        if bits > MOST_BITS:
            return f"a power of at most {MOST_BITS} bits is computed, got one of {bits}"
    return None
