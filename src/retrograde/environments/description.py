"""What makes an environment what it is, as plain data: for manifests and for caches."""

from dataclasses import asdict, is_dataclass
from typing import Any, cast

from retrograde.environments.protocol import Environment


def described(environment: Environment) -> dict[str, Any] | None:
    """What its own `described` says, or else its fields; None if it has neither.

    Whoever holds what is no plain data, such as functions, says with `described` what stands for
    them: two environments are taken for the same if this is the same.
    """
    own: Any = getattr(environment, "described", None)
    if own is not None:
        return cast("dict[str, Any]", own())
    if not is_dataclass(environment) or isinstance(environment, type):
        return None
    return asdict(environment)
