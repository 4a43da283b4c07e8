"""Functions that may be called, as their simulators document them."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

Documentation = Literal["full", "short"]

_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
"""BFCL names types as Python does; JSON Schema has other names for some."""
_PURPOSE = "Tool description: "
"""Behind this, a description says what the function does; before, what its whole class is for."""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function's documentation. There is one object for each function."""

    name: str
    description: str
    parameters: dict[str, Any]
    """As BFCL writes it: a JSON Schema but for the names of types."""

    def tool(self, documentation: Documentation) -> str:
        """As chat templates take it: one line of JSON.

        Args:
            documentation: `short` leaves out what the parameters mean, what the class is for,
                and all but the first sentence of what the function does.
        """
        return _tool(self, documentation)


@cache
def _tool(function: Function, documentation: Documentation) -> str:
    description, short = function.description, documentation == "short"
    if short:
        description = description.partition(_PURPOSE)[2] or description
        description = description.partition(". ")[0].rstrip(".") + "."
    parameters = _schema(function.parameters, short=short)
    told = {"name": function.name, "description": description, "parameters": parameters}
    return json.dumps({"type": "function", "function": told})


def _schema(value: dict[str, Any], *, short: bool) -> dict[str, Any]:
    schema = dict(value)
    schema["type"] = _TYPES.get(value["type"], value["type"])
    if short:
        schema.pop("description", None)
    if "items" in value:
        schema["items"] = _schema(value["items"], short=short)
    if "properties" in value:
        properties: dict[str, dict[str, Any]] = value["properties"]
        schema["properties"] = {
            name: _schema(inner, short=short) for name, inner in properties.items()
        }
    return schema
