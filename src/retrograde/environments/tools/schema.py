"""Arguments checked by a JSON schema that somebody else wrote."""

from collections.abc import Callable, Mapping
from typing import Any

from retrograde.environments.extras import extra


def checker(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], str | None]:
    """What says what is wrong with arguments, in words; None if nothing is.

    References to other places are not fetched; what depends on one is left to whoever is called.

    Raises:
        ValueError: it is no schema.
    """
    jsonschema, referencing = extra("jsonschema", "mcp"), extra("referencing", "mcp")
    kind = jsonschema.validators.validator_for(schema)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as cause:
        raise ValueError(f"the schema is none: {cause.message}") from cause
    validator = kind(schema, registry=referencing.Registry())

    def wrong(arguments: Mapping[str, Any]) -> str | None:
        try:
            problem = jsonschema.exceptions.best_match(validator.iter_errors(dict(arguments)))
        except referencing.exceptions.Unresolvable:
            return None
        if problem is None:
            return None
        place = ".".join(str(part) for part in problem.absolute_path)
        return f"{place}: {problem.message}" if place else str(problem.message)

    return wrong
