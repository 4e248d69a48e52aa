"""`structural_tag`: free text with tags in it whose contents are held, in both forms that clients of vLLM and SGLang send.

`{"structures": [{"begin", "schema", "end"}], "triggers": [...]}`, or `{"format": ...}`, a tree of the types below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from constrained.server.errors import ApiError, as_api_error
from grammars import AnyText, Gbnf, Grammar, GrammarError, JsonSchema, OneOf, Regex, Sequence
from grammars.tool_calls import between_tags
from grammars.values import Part, Repeat, ToolSignature

_DEEPEST: Final = 32

_Tag = tuple[str, Part, tuple[str, ...]]
"""Begin, content and the ends, of which one comes."""

Places = list[tuple[Grammar, str]]
"""Grammars that a request holds, each with the parameter that it stands in."""


def read_structural_tag(value: Mapping[str, Any], place: str, space: str) -> tuple[Grammar, Places]:
    """The grammar of a whole answer, and those within it.

    Args:
        place: the parameter.
        space: whitespace in JSON, as `JsonSchema` takes it.

    Raises:
        ApiError: it cannot be read; with the place in it.
    """
    reader = _Reader(space)
    if "structures" in value:
        grammar = reader.structures(value, place)
    else:
        _only(value, {"type", "format"}, place)
        grammar = reader.format(_get(value, "format", dict, place), f"{place}.format", 0)
    return grammar if isinstance(grammar, Grammar) else Sequence(grammar), reader.places


class _Reader:
    def __init__(self, space: str) -> None:
        self._space = space
        self.places: Places = []

    def structures(self, value: Mapping[str, Any], place: str) -> Part:
        """The older form: any number of tags in free text."""
        _only(value, {"type", "structures", "triggers"}, place)
        tags: list[_Tag] = []
        for at, one in enumerate(_list(value, "structures", place)):
            where = f"{place}.structures[{at}]"
            _only(_object(one, where), {"begin", "schema", "end"}, where)
            tags.append((_text(one, "begin", where), self._schema(one, "schema", where), (_text(one, "end", where),)))
        return self._triggered(tags, value, place, place + ".structures")

    def format(self, value: Any, place: str, depth: int) -> Part:
        """One element of the newer form."""
        if depth > _DEEPEST:
            raise _wrong(place, f"is nested deeper than {_DEEPEST} levels")
        kind = _object(value, place).get("type")
        readers: dict[Any, Callable[[Mapping[str, Any], str, int], Part]] = {
            "const_string": self._const_string,
            "json_schema": self._json_schema,
            "qwen_xml_parameter": self._xml_parameter,
            "regex": self._regex,
            "grammar": self._grammar,
            "any_text": self._any_text,
            "sequence": lambda one, at, deep: Sequence(*self._elements(one, at, deep)),
            "or": lambda one, at, deep: OneOf(*self._elements(one, at, deep)),
            "tag": lambda one, at, deep: _joined(self._tag(one, at, deep)),
            "triggered_tags": self._triggered_tags,
            "tags_with_separator": self._separated_tags,
        }
        if kind not in readers:
            raise _wrong(f"{place}.type", f"is {kind!r}; there are {', '.join(readers)}")
        return readers[kind](value, place, depth)

    def _const_string(self, value: Mapping[str, Any], place: str, depth: int) -> Part:
        _only(value, {"type", "value", "text"}, place)
        return _text(value, "value" if "value" in value else "text", place)

    def _json_schema(self, value: Mapping[str, Any], place: str, depth: int) -> Part:
        _only(value, {"type", "json_schema", "style"}, place)
        style = value.get("style", "json")
        if style not in ("json", "qwen_xml"):
            raise _wrong(f"{place}.style", f"is {style!r}; there are json and qwen_xml (and tools with a tool_format)")
        return self._parameters(value, place) if style == "qwen_xml" else self._schema(value, "json_schema", place)

    def _xml_parameter(self, value: Mapping[str, Any], place: str, depth: int) -> Part:
        _only(value, {"type", "json_schema"}, place)
        return self._parameters(value, place)

    def _parameters(self, value: Mapping[str, Any], place: str) -> Part:
        """Each property of an object between tags, as Qwen3-Coder writes the arguments of a call."""
        schema = value.get("json_schema")
        if isinstance(schema, Mapping) and schema.get("type", "object") != "object":
            raise _wrong(f"{place}.json_schema", "is no schema of an object, whose properties would stand between tags")
        grammar = self._schema(value, "json_schema", place)
        assert isinstance(grammar, JsonSchema)
        try:
            return between_tags(ToolSignature("parameters", grammar))
        except GrammarError as error:
            raise as_api_error(error, f"{place}.json_schema") from None

    def _regex(self, value: Mapping[str, Any], place: str, depth: int) -> Part:
        _only(value, {"type", "pattern"}, place)
        return self._held(f"{place}.pattern", lambda: Regex(_text(value, "pattern", place)))

    def _grammar(self, value: Mapping[str, Any], place: str, depth: int) -> Part:
        _only(value, {"type", "grammar"}, place)
        return self._held(f"{place}.grammar", lambda: Gbnf(_text(value, "grammar", place) + "\n"))

    def _any_text(self, value: Mapping[str, Any], place: str, depth: int) -> Part:
        _only(value, {"type", "excludes"}, place)
        return AnyText(stop=_texts(value, "excludes", place))

    def _elements(self, value: Mapping[str, Any], place: str, depth: int) -> list[Part]:
        _only(value, {"type", "elements"}, place)
        found = [
            self.format(one, f"{place}.elements[{at}]", depth + 1)
            for at, one in enumerate(_list(value, "elements", place))
        ]
        if not found:
            raise _wrong(f"{place}.elements", "is empty")
        return found

    def _tag(self, value: Any, place: str, depth: int) -> _Tag:
        _only(_object(value, place), {"type", "begin", "content", "end"}, place)
        if value.get("type", "tag") != "tag":
            raise _wrong(f"{place}.type", f"is {value['type']!r}; tags alone stand here")
        end = value.get("end")
        ends = (end,) if isinstance(end, str) else _texts(value, "end", place)
        content = _object(value.get("content"), f"{place}.content")
        if content.get("type") == "any_text":
            # Free text ends at the tag's end.
            stops = (*_texts(content, "excludes", f"{place}.content"), *filter(None, ends))
            return _text(value, "begin", place), AnyText(stop=stops), ends or ("",)
        return _text(value, "begin", place), self.format(content, f"{place}.content", depth + 1), ends or ("",)

    def _triggered_tags(self, value: Mapping[str, Any], place: str, depth: int) -> Part:
        _only(value, {"type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes"}, place)
        tags = [self._tag(one, f"{place}.tags[{at}]", depth + 1) for at, one in enumerate(_list(value, "tags", place))]
        return self._triggered(tags, value, place, place + ".tags")

    def _triggered(self, tags: list[_Tag], value: Mapping[str, Any], place: str, tags_place: str) -> Part:
        triggers = _texts(value, "triggers", place)
        for at, (begin, _, _) in enumerate(tags):
            if not any(begin.startswith(trigger) for trigger in triggers):
                raise _wrong(f"{tags_place}[{at}].begin", f"is {begin!r}, with which none of the triggers begins")
        if not tags or "" in triggers:
            raise _wrong(place, "needs at least one tag, and triggers that are not empty")
        text = AnyText(stop=(*triggers, *_texts(value, "excludes", place)))
        tag = OneOf(*map(_joined, tags))
        least = 1 if _flag(value, "at_least_one", place) else 0
        if _flag(value, "stop_after_first", place):
            return Sequence(text, tag) if least else Sequence(text, OneOf("", tag))
        return Sequence(Repeat(Sequence(text, tag), least), text)

    def _separated_tags(self, value: Mapping[str, Any], place: str, depth: int) -> Part:
        _only(value, {"type", "tags", "separator", "at_least_one", "stop_after_first"}, place)
        tags = [self._tag(one, f"{place}.tags[{at}]", depth + 1) for at, one in enumerate(_list(value, "tags", place))]
        if not tags:
            raise _wrong(f"{place}.tags", "is empty")
        most = 1 if _flag(value, "stop_after_first", place) else None
        least = 1 if _flag(value, "at_least_one", place) else 0
        return Repeat(OneOf(*map(_joined, tags)), least, most, _text(value, "separator", place))

    def _schema(self, value: Mapping[str, Any], key: str, place: str) -> Grammar:
        schema = value.get(key)
        if not isinstance(schema, dict | bool):
            raise _wrong(f"{place}.{key}", "is no schema")
        return self._held(f"{place}.{key}", lambda: JsonSchema(schema, whitespace=self._space))

    def _held(self, place: str, made: Callable[[], Grammar]) -> Grammar:
        try:
            grammar = made()
        except GrammarError as error:
            raise as_api_error(error, place) from None
        self.places.append((grammar, place))
        return grammar


def _joined(tag: _Tag) -> Part:
    begin, content, ends = tag
    return Sequence(begin, content, OneOf(*ends))


def _wrong(place: str, what: str) -> ApiError:
    return ApiError(400, f"{place} {what}", param=place, code="invalid_value")


def _only(value: Mapping[str, Any], known: set[str], place: str) -> None:
    for key in value:
        if key not in known:
            raise ApiError(400, f"unknown parameter: {place}.{key}", param=f"{place}.{key}", code="unknown_parameter")


def _object(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(place, "is no object")
    return value


def _get(value: Mapping[str, Any], key: str, kind: type, place: str) -> Any:
    found = value.get(key)
    if not isinstance(found, kind):
        names = {str: "a text", list: "a list", dict: "an object", bool: "true or false"}
        raise _wrong(f"{place}.{key}", f"is to be {names[kind]}")
    return found


def _text(value: Mapping[str, Any], key: str, place: str) -> str:
    return str(_get(value, key, str, place))


def _list(value: Mapping[str, Any], key: str, place: str) -> list[Any]:
    return list(_get(value, key, list, place))


def _texts(value: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    found = value.get(key) or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise _wrong(f"{place}.{key}", "is to be a list of texts")
    return tuple(found)


def _flag(value: Mapping[str, Any], key: str, place: str) -> bool:
    return value.get(key) is not None and bool(_get(value, key, bool, place))
