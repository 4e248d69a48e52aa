"""From `response_format`, `structured_outputs` and `guided_*` to a grammar."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from constrained.compile import check_grammar
from constrained.server.errors import ApiError, as_api_error
from constrained.server.parameters import GuidedParameters
from constrained.server.structural_tags import read_structural_tag
from grammars import Choice, Gbnf, Grammar, GrammarError, JsonSchema, Lark, Regex

ANY_OBJECT = {"type": "object"}


@dataclass(frozen=True)
class AskedGrammar:
    """The grammar of a content that a request asks for.

    Attributes:
        param: the parameter that it comes from.
        places: grammars within it, each with the place that it stands in.
    """

    grammar: Grammar
    param: str
    places: Sequence[tuple[Grammar, str]] = ()

    def check_places(self) -> None:
        """Finds what is wrong in the grammars within it, however far down.

        Raises:
            ApiError: with the place.
        """
        for grammar, place in self.places:
            try:
                check_grammar(grammar)
            except GrammarError as error:
                raise as_api_error(error, place) from error


def grammar_of(
    request: GuidedParameters, response_format: dict[str, Any] | None, limit: int, format_name: str = "response_format"
) -> AskedGrammar | None:
    """The grammar of the content; `None` where the text is free.

    Args:
        limit: most bytes of it.

    Raises:
        ApiError: two grammars, one that is too large or cannot be read, or stop texts that would cut it.
    """
    found: list[tuple[str, str, Any]] = []
    given = request.structured_outputs
    space = request.guided_whitespace_pattern
    if given is not None:
        space = "compact" if given.disable_any_whitespace else space
        space = space if given.whitespace_pattern is None else given.whitespace_pattern
        for kind in ("json", "regex", "choice", "grammar", "json_object", "structural_tag"):
            value = given.json_ if kind == "json" else getattr(given, kind)
            if value is not None and not (kind == "json_object" and value is False):
                found.append((f"structured_outputs.{kind}", kind, value))
    for kind in ("json", "regex", "choice", "grammar"):
        value = getattr(request, f"guided_{kind}")
        if value is not None:
            found.append((f"guided_{kind}", kind, value))
    if response_format is not None:
        found.extend(_response_format(response_format, format_name))
    if not found:
        return None
    found = _objects(found)
    if len(found) > 1:
        raise ApiError(400, f"{found[0][0]} and {found[1][0]} exclude each other; give one", param=found[1][0])
    param, kind, value = found[0]
    check_size(value, limit, param)
    if request.stops:
        raise ApiError(400, f"stop would cut what {param} makes whole; leave one of them out", param="stop")
    if kind == "structural_tag":
        return AskedGrammar(*_structural(value, param, space))
    try:
        return AskedGrammar(_made(kind, value, space), param)
    except GrammarError as error:
        raise as_api_error(error, param) from None


def _structural(value: Any, param: str, space: str | None) -> tuple[Grammar, str, Sequence[tuple[Grammar, str]]]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (RecursionError, ValueError) as error:
            raise ApiError(400, f"{param} is no JSON: {error}", param=param, code="invalid_value") from None
    if not isinstance(value, dict):
        raise ApiError(400, f"{param} is no object", param=param, code="invalid_value")
    grammar, places = read_structural_tag(value, param, "bounded" if space is None else space)
    return grammar, param, places


def _objects(found: list[tuple[str, str, Any]]) -> list[tuple[str, str, Any]]:
    """A schema of objects beside `json_object` is the schema: clients with a JSON mode send both."""
    schemas = [one for one in found if one[1] == "json" and isinstance(one[2], dict) and one[2].get("type") == "object"]
    return schemas if schemas and {kind for _, kind, _ in found} == {"json", "json_object"} else found


def check_size(value: Any, limit: int, param: str) -> None:
    """Refuses a grammar, or several, of more than `limit` bytes."""
    try:
        size = len(value.encode() if isinstance(value, str) else json.dumps(value).encode())
    except (RecursionError, ValueError) as error:
        raise ApiError(400, f"{param} cannot be read: {type(error).__name__}", param=param) from None
    if size > limit:
        raise ApiError(
            413, f"{param} has {size} bytes, and {limit} is the most of a request's grammars", param=param,
            code="grammar_too_large",
        )  # fmt: skip


def _response_format(value: dict[str, Any], name: str) -> list[tuple[str, str, Any]]:
    kind = value.get("type")
    if kind == "text":
        _only(value, {"type"}, name)
        return []
    if kind == "json_object":
        _only(value, {"type"}, name)
        return [(name, "json_object", True)]
    if kind == "structural_tag":
        return [(name, "structural_tag", value)]
    if kind != "json_schema":
        raise ApiError(
            400, f"{name}.type is {kind!r}; there are text, json_object, json_schema and structural_tag",
            param=f"{name}.type", code="invalid_value",
        )  # fmt: skip
    # The responses route has the members of `json_schema` beside the type.
    inner, place = (value, name) if "json_schema" not in value else (value["json_schema"], f"{name}.json_schema")
    if not isinstance(inner, dict):
        raise ApiError(400, f"{place} is no object", param=place, code="invalid_value")
    _only(inner, {"name", "schema", "strict", "description", "type"}, place)
    schema = inner.get("schema")
    if not isinstance(schema, dict | bool):
        raise ApiError(400, f"{place}.schema is missing", param=f"{place}.schema", code="missing_required_parameter")
    return [(f"{place}.schema", "json", schema)]


def _only(value: dict[str, Any], known: set[str], place: str) -> None:
    for key in value:
        if key not in known:
            raise ApiError(400, f"unknown parameter: {place}.{key}", param=f"{place}.{key}", code="unknown_parameter")


def _made(kind: str, value: Any, space: str | None) -> Grammar:
    if kind in ("json_object", "json"):
        schema = ANY_OBJECT if kind == "json_object" else value
        return JsonSchema(schema, whitespace="bounded" if space is None else space)
    if kind == "regex":
        return Regex(value)
    if kind == "choice":
        return Choice(value)
    return Gbnf(value + "\n") if "::=" in value else Lark(value + "\n")
