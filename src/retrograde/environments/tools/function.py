"""Plain typed Python functions as tools: the schema is in the signature and the docstring."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, NotRequired, Required, get_type_hints

from retrograde.environments.tools.limit import Caught, ToolTimeoutError, within
from retrograde.environments.tools.tool import Result, Tool

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
MORE = 3
"""Problems with arguments that are told at once."""


@dataclass(frozen=True)
class Signature:
    """What a function takes."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    adapter: Any
    """pydantic's reader of the arguments."""

    def read(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        """The arguments as Python values, and what is wrong with them, if anything is."""
        from pydantic import ValidationError

        try:
            return self.adapter.validate_json(json.dumps(dict(arguments)), strict=True), None
        except ValidationError as error:
            problems = [
                f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}"
                for one in error.errors(include_url=False, include_input=False)
            ]
            return {}, "; ".join(problems[:MORE])


def tool_of(function: Callable[..., Any], seconds: float) -> Tool:
    """A function, or a bound method, as a tool.

    Every parameter needs a type; `list[int]`, `Literal["a", "b"]`, dataclasses and so on will do.
    What it does is the first part of the docstring, what its arguments mean the `Args:` section
    in Google's style. It may be asynchronous.

    Args:
        function: what is called.
        seconds: how long a call may take.

    Raises:
        ValueError: its signature cannot be told in a schema; the parameter is named.
    """
    is_bound = inspect.ismethod(function)
    signature = signature_of(function.__func__ if is_bound else function, is_bound=is_bound)

    async def run(arguments: Mapping[str, Any]) -> Result:
        values, problem = signature.read(arguments)
        if problem is not None:
            return Result(f"Error: {problem}", "tool/error")
        with Caught() as caught:
            return Result(told(await within(seconds, function, values)))
        return failed(caught.error)

    return Tool(
        signature.name,
        signature.description,
        signature.parameters,
        lambda arguments: signature.read(arguments)[1],
        run,
    )


def failed(error: BaseException | None) -> Result:
    """The result of a call that raised."""
    if isinstance(error, ToolTimeoutError):
        return Result(f"Error: {error}", "tool/timeout")
    return Result(cleaned(f"Error: {type(error).__name__}: {error}"), "tool/error")


def told(value: Any) -> str:
    """A result as text: text as it is, anything else as JSON."""
    from pydantic_core import to_jsonable_python

    if isinstance(value, str):
        return cleaned(value)
    plain = to_jsonable_python(value, fallback=str)
    return cleaned(json.dumps(plain, ensure_ascii=False))


def cleaned(text: str) -> str:
    """Text that can be encoded: halves of surrogate pairs are replaced."""
    return text.encode("utf-8", "replace").decode()


@lru_cache(1024)
def signature_of(function: Callable[..., Any], *, is_bound: bool = False) -> Signature:
    """What a function takes.

    Args:
        function: what is called.
        is_bound: whether its first parameter is given by the object it belongs to.

    Raises:
        ValueError: it cannot be told in a schema.
    """
    name = getattr(function, "__name__", "")
    if not _NAME.fullmatch(name):
        raise ValueError(f"a tool needs the name of a function, got {function!r} ({name!r})")
    summary, about = _documented(function)
    adapter = _adapter(name, _fields(function, name, about, is_bound=is_bound))
    schema = adapter.json_schema(schema_generator=_generator())
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return Signature(name, summary, schema, adapter)


def _adapter(name: str, fields: Mapping[str, Any]) -> Any:
    from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter
    from typing_extensions import TypedDict

    taken: Any = TypedDict(name, fields)  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
    taken.__pydantic_config__ = ConfigDict(extra="forbid")
    try:
        return TypeAdapter(taken)
    except PydanticSchemaGenerationError as cause:
        raise ValueError(f"tool {name}: a parameter's type has no schema: {cause}") from cause


def _fields(
    function: Callable[..., Any], name: str, about: Mapping[str, str], *, is_bound: bool
) -> dict[str, Any]:
    """The type of each parameter, with what is said about it."""
    parameters = list(inspect.signature(function).parameters.values())
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as cause:
        raise ValueError(f"tool {name}: a type in its signature is not known: {cause}") from cause
    fields: dict[str, Any] = {}
    for one in parameters[1:] if is_bound else parameters:
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise ValueError(f"tool {name}: {one}: it cannot be given by name")
        if one.name not in hints:
            raise ValueError(f"tool {name}: {one.name}: a type is needed, such as {one.name}: str")
        fields[one.name] = _field(one, hints[one.name], about.get(one.name))
    return fields


def _field(parameter: inspect.Parameter, hint: Any, about: str | None) -> Any:
    from pydantic import Field

    if parameter.default is parameter.empty:
        return Required[Annotated[hint, Field(description=about)]]
    extra = {"default": parameter.default}
    with Caught() as caught:  # a default may be anything, also what JSON cannot say
        json.dumps(extra)
    shown = None if caught.error is not None else extra
    return NotRequired[Annotated[hint, Field(description=about, json_schema_extra=shown)]]


def _documented(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What it does, and what its arguments mean."""
    from docstring_parser import parse

    found = parse(inspect.getdoc(function) or "")
    parts = [part for part in (found.short_description, found.long_description) if part]
    about = {one.arg_name: " ".join((one.description or "").split()) for one in found.params}
    return "\n\n".join(parts), {name: text for name, text in about.items() if text}


@lru_cache(1)
def _generator() -> Any:
    """pydantic's schemas, without the titles that repeat the names."""
    from pydantic.json_schema import GenerateJsonSchema

    class Plain(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - never
            return False

    return Plain
