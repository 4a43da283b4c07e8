"""A method of a comparison, as it is written: `grpo:epochs=3+clip=0.3`."""

import difflib
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrograde.algorithms.options import written_out
from retrograde.algorithms.registry import ALGORITHMS, algorithm_named

ALIASES = {"lr": "learning-rate"}
TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class Spec:
    """An algorithm with settings of its own."""

    label: str
    """The words themselves."""
    algorithm: str
    options: Mapping[str, str]
    """Settings that differ from the algorithm's defaults, as they would be named on the command
    line of `retrograde train`, without `--algorithm.`."""

    @property
    def slug(self) -> str:
        """The label as the name of a folder."""
        return re.sub(r"[^A-Za-z0-9._]+", "-", self.label).strip("-.")

    def words(self, learning_rate: float | None = None) -> list[str]:
        """The algorithm and its settings on the command line of `retrograde train`.

        Args:
            learning_rate: one that was chosen for it; None leaves it as it is.
        """
        words = ["--algorithm", self.algorithm]
        parameters = inspect.signature(written_out(ALGORITHMS[self.algorithm])).parameters
        for name, value in self.options.items():
            if parameters[name.replace("-", "_")].annotation is bool:
                words.append(f"--algorithm.{'' if TRUTHS[value.lower()] else 'no-'}{name}")
            else:
                words += [f"--algorithm.{name}", value]
        if learning_rate is not None:
            words += ["--algorithm.learning-rate", repr(learning_rate)]
        return words


def specs_of(text: str) -> list[Spec]:
    """Read `A,B:option=value+option=value,...`.

    Raises:
        ValueError: a method or an option is unknown, or two methods are the same.
    """
    specs = [_spec(label.strip()) for label in text.split(",")]
    _check_distinct([spec.label for spec in specs], "methods have the label")
    _check_distinct([spec.slug for spec in specs], "methods would be kept in one folder,")
    return specs


def _check_distinct(names: Sequence[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"--algorithms: {names.count(twice[0])} {what} {twice[0]!r}")


def _spec(label: str) -> Spec:
    name, colon, settings = label.partition(":")
    if not name:
        raise ValueError(
            "--algorithms: names with commas between them are needed, each with its settings "
            f'if it has any ("rtpo,grpo:epochs=3+clip=0.3"); got an empty name in {label!r}'
        )
    known = inspect.signature(written_out(algorithm_named(name))).parameters
    options: dict[str, str] = {}
    for setting in settings.split("+") if colon else ():
        option, equals, value = setting.partition("=")
        option = option.strip().replace("_", "-")
        option = ALIASES.get(option, option)
        if not (option and equals and value):
            raise ValueError(f"{label}: option=value is needed after the colon, got {setting!r}")
        if option.replace("-", "_") not in known:
            names = [parameter.replace("_", "-") for parameter in known]
            near = difflib.get_close_matches(option, names, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise ValueError(
                f"{label}: {name} has no setting {option!r}; {hint}known: {', '.join(names)}"
            )
        if option in options:
            raise ValueError(f"{label}: {option} is set twice")
        if known[option.replace("-", "_")].annotation is bool and value.lower() not in TRUTHS:
            raise ValueError(f"{label}: {option} is true or false, got {value!r}")
        options[option] = value.strip()
    return Spec(label, name, options)
