"""What users pass as `schema`: read into a grammar, and the way back from text to values.

A Pydantic model or any type that a `TypeAdapter` takes gives instances of the type; a dict, a bool or a JSON string
gives plain Python values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from constrained.errors import ResultError
from constrained.json_numbers import Json
from constrained.partial import PartialJson, typed_as
from grammars import Grammar, JsonSchema


@dataclass(frozen=True)
class SchemaInput:
    """A schema that was read.

    Attributes:
        grammar: the language of its instances.
        description: the JSON Schema as prompts show it: for a type as Pydantic writes it, else that of `grammar`.
        parse: the value for a finished text, checked; raises `ResultError`.
        partial: the value for a plain one that is not whole yet; see `constrained.partial`.
    """

    grammar: JsonSchema
    description: Json
    parse: Callable[[str], Any]
    partial: Callable[[Any], Any] = field(default=lambda value: value)


def read_schema(schema: Any) -> SchemaInput:
    """Reads whatever `schema=` may be.

    Args:
        schema: a Pydantic model; any type that `pydantic.TypeAdapter` takes (dataclass, TypedDict, enum, `list[int]`,
            `Literal[...]`, ...) or a `TypeAdapter` itself; a JSON Schema as dict, bool or JSON string; or a
            `grammars.JsonSchema` where its options are wanted.

    Raises:
        SchemaError: not a JSON Schema, or a type that has none.
        TypeError: nothing of the above.
    """
    if isinstance(schema, JsonSchema):
        return _plain(schema)
    if isinstance(schema, str | bool | Mapping):
        return _plain(JsonSchema(schema))
    if schema is None or isinstance(schema, int | float | bytes | list | tuple | set):
        raise TypeError(
            f"schema is {schema!r}; pass a Pydantic model, a type such as list[int], "
            "a JSON Schema as dict, bool or JSON string, or a grammars.JsonSchema"
        )
    return _typed(schema)


def partial_reader(constraint: Any) -> PartialJson:
    """A reader of the value so far, for a schema or what was compiled from one.

    Raises:
        ValueError: it is neither.
    """
    grammar = getattr(constraint, "grammar", None)
    if isinstance(grammar, JsonSchema):
        return PartialJson()
    if (
        constraint is None
        or grammar is not None
        or (isinstance(constraint, Grammar) and not isinstance(constraint, JsonSchema))
    ):
        raise ValueError("partial=True needs a schema as the constraint: only JSON has a value before it is whole")
    return PartialJson(read_schema(constraint).partial)


def _plain(grammar: JsonSchema) -> SchemaInput:
    # jsonschema is imported when the first result is there to be checked, not before the first token.
    def parse(text: str) -> Json:
        from constrained.validation import JsonCheck

        return JsonCheck(grammar).parse(text)

    return SchemaInput(grammar, grammar.document, parse)


def _typed(source: Any) -> SchemaInput:
    from pydantic import TypeAdapter, ValidationError

    from constrained.pydantic_schema import adapter_of, described, json_schema_of

    adapter = adapter_of(source)

    def parse(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            respelled = _with_plain_integers(text)
            if respelled != text:  # `StrictInt` refuses 1.0, which is an integer of JSON Schema
                with suppress(ValidationError):
                    return adapter.validate_json(respelled)
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the value"
            raise ResultError(f"the type refuses {place}: {first['msg']}", text) from error

    kind = source._type if isinstance(source, TypeAdapter) else source
    return SchemaInput(JsonSchema(json_schema_of(adapter)), described(adapter), parse, typed_as(kind))


_STRING_OR_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')
_MOST_DIGITS = 400


def _with_plain_integers(text: str) -> str:
    """The JSON text with whole numbers written without fraction and exponent, as far as they are of a sensible length."""

    def respelled(found: re.Match[str]) -> str:
        token = found[0]
        if token[0] == '"' or not re.search("[.eE]", token):
            return token
        number = Decimal(token)
        if abs(number.adjusted()) > _MOST_DIGITS or number != number.to_integral_value():
            return token
        return f"{int(number)}"

    return _STRING_OR_NUMBER.sub(respelled, text)
