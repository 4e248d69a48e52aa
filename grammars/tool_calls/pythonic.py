"""Arguments as Python writes them: `city="Oslo", days=[1, 2], alerts=True`.

JSON and Python spell the same values alike save for `true`, `false` and `null`.  So a value in which none of these can occur is
generated under its schema as it is (with canonical escapes, which both languages read alike); where they can, the schema is
taken apart into its members.  Only arguments that the schema declares are offered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Sequence as Items
from typing import Any, Final

from grammars.errors import UnsupportedFeature
from grammars.tool_calls.schema_parts import SchemaParts, types_of
from grammars.values import JsonSchema, OneOf, Part, Repeat, Sequence, ToolSignature

WORDS: Final = {"true": "True", "false": "False", "null": "None"}

_PLAIN: Final = frozenset(("string", "number", "integer"))
_ALL_TYPES: Final = ("string", "number", "boolean", "null", "array", "object")


def keyword_arguments(tool: ToolSignature) -> Part:
    """The language of a call's arguments, without the parentheses.

    Raises:
        UnsupportedFeature: a schema in which `true`, `false` or `null` may stand where it cannot be taken apart.
    """
    reader = _Reader(tool)
    return reader.members(*reader.parts.root(), 0, reader.keyword)


class _Reader:
    def __init__(self, tool: ToolSignature) -> None:
        self.name = tool.name
        self.parts = SchemaParts(tool, "pythonic")

    def value(self, schema: Any, pointer: str, depth: int) -> Part:
        """The Python spelling of the instances of a subschema."""
        if self.is_wordless(schema, frozenset()):
            return self._as_it_is(pointer)
        schema, pointer = self.parts.resolved(schema, pointer, depth)
        if schema is True:
            schema = {}
        if not isinstance(schema, Mapping):
            raise self.parts.refusal(pointer, "false")
        for keyword in ("enum", "const"):
            if keyword in schema:
                self.parts.only(schema, {keyword}, pointer)
                values = schema["enum"] if keyword == "enum" else [schema["const"]]
                return OneOf(*[python_literal(one) for one in values])
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                self.parts.only(schema, {keyword}, pointer)
                options = [
                    self.parts.resolved(one, f"{pointer}/{keyword}/{at}", depth)
                    for at, one in enumerate(schema[keyword])
                ]
                if keyword == "oneOf" and not _are_apart([one for one, _ in options]):
                    raise self.parts.refusal(pointer, keyword)
                return OneOf(*[self.value(one, where, depth + 1) for one, where in options])
        kinds = types_of(schema) or _ALL_TYPES
        return OneOf(*[self._typed(kind, schema, pointer, depth) for kind in kinds])

    def keyword(self, key: str) -> str:
        """The name of an argument, as it stands before its value."""
        if not key.isidentifier():
            raise UnsupportedFeature(
                f"tool {self.name!r}: the pythonic format cannot name the argument {key!r}; take another format"
            )
        return f"{key}="

    def members(self, schema: Any, pointer: str, depth: int, written: Any) -> Part:
        """The members of an object in the order of its schema, with `, ` between."""
        items = [
            (Sequence(written(key), self.value(one, where, depth + 1)), needed)
            for key, one, where, needed in self.parts.properties(schema, pointer)
        ]
        return _separated(items)

    def is_wordless(self, schema: Any, seen: frozenset[str]) -> bool:
        """Whether no instance holds `true`, `false` or `null`; in doubt it may."""
        if not isinstance(schema, Mapping):
            return schema is False
        if "$ref" in schema:
            pointer = schema["$ref"]
            found = self.parts.at(pointer)
            return pointer in seen or (found is not None and self.is_wordless(found, seen | {pointer}))
        if "enum" in schema or "const" in schema:
            values = schema["enum"] if "enum" in schema else [schema["const"]]
            return not any(_has_word(one) for one in values)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema and "type" not in schema:
                return all(self.is_wordless(one, seen) for one in schema[keyword])
        kinds = types_of(schema)
        if not kinds:
            return False
        if not set(kinds) <= {*_PLAIN, "array", "object"}:
            return False
        if "array" in kinds:
            items = [schema.get("items", True), *schema.get("prefixItems", [])]
            if not all(self.is_wordless(one, seen) for one in items):
                return False
        if "object" in kinds:
            inside = [*schema.get("properties", {}).values(), *schema.get("patternProperties", {}).values()]
            inside.append(schema.get("additionalProperties", True))
            return all(self.is_wordless(one, seen) for one in inside)
        return True

    def _typed(self, kind: str, schema: Mapping[str, Any], pointer: str, depth: int) -> Part:
        if kind == "boolean":
            return OneOf("True", "False")
        if kind == "null":
            return "None"
        if kind in _PLAIN:
            return self._as_it_is(pointer, type=kind)
        if kind == "array":
            self.parts.only(schema, {"items", "minItems", "maxItems"}, pointer)
            most = schema.get("maxItems")
            if "items" not in schema:  # of anything: of what needs no taking apart
                item: Part = JsonSchema({"type": ["string", "number"]}, escapes="canonical")
            else:
                item = self.value(schema["items"], f"{pointer}/items", depth + 1)
            return Sequence(
                "[", Repeat(item, int(schema.get("minItems", 0)), None if most is None else int(most), ", "), "]"
            )
        return Sequence("{", self.members(schema, pointer, depth, lambda key: f"{json.dumps(key)}: "), "}")

    def _as_it_is(self, pointer: str, **more: str) -> JsonSchema:
        """The subschema at `pointer`, of which Python reads every instance as JSON does."""
        return self.parts.subschema(pointer, "canonical", **more)


def python_literal(value: Any) -> str:
    """A JSON value as Python writes it, strings with JSON's canonical escapes."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)}: {python_literal(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(python_literal, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    written = str(value) if not isinstance(value, bool) and value is not None else json.dumps(value)
    return WORDS.get(written, written)


def _separated(items: Items[tuple[Part, bool]]) -> Part:
    """The items with `, ` between; those that are not needed may be left out."""
    later: list[Part] = []
    options: list[Part] = []
    for item, needed in reversed(items):
        options.insert(0, Sequence(item, *later))
        if needed:
            options = options[:1]
        following = Sequence(", ", item)
        later.insert(0, following if needed else OneOf("", following))
    return OneOf(*options, *(() if any(needed for _, needed in items) else ("",)))


def _are_apart(options: Items[Any]) -> bool:
    seen: set[str] = set()
    for one in options:
        kinds = {
            "number" if kind == "integer" else kind for kind in (types_of(one) if isinstance(one, Mapping) else ())
        }
        if not kinds or kinds & seen:
            return False
        seen |= kinds
    return True


def _has_word(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_word, value.values()))
    if isinstance(value, list):
        return any(map(_has_word, value))
    return value is None or isinstance(value, bool)
