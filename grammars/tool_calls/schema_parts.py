"""The arguments' schema of a tool taken apart, for formats that write each argument in a place of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from grammars.errors import UnsupportedFeature
from grammars.values import JsonSchema, ToolSignature

DEEPEST: Final = 32
"""References and levels that are followed."""

_ANNOTATIONS: Final = frozenset(
    ("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment", "$defs",
     "definitions", "$schema", "type")
)  # fmt: skip


class SchemaParts:
    """Subschemas of a tool's arguments by their places."""

    def __init__(self, tool: ToolSignature, format: str) -> None:
        """`format` is named where something is refused."""
        self.name = tool.name
        self._grammar = tool.arguments
        self._root = tool.arguments.document
        self._uri = f"urn:tool:{tool.name}"
        self._format = format

    def root(self) -> tuple[Any, str]:
        """The schema of all arguments, and where it stands."""
        return self.resolved(self._root, "#", 0)

    def properties(self, schema: Any, pointer: str) -> Iterator[tuple[str, Any, str, bool]]:
        """Name, schema, place and whether it is needed, of each declared property that can be there, in their order.

        Raises:
            UnsupportedFeature: a keyword that says more of the object.
        """
        if not isinstance(schema, Mapping):
            schema = {}
        self.only(schema, {"properties", "required", "additionalProperties"}, pointer)
        required = schema.get("required", [])
        properties = dict(schema.get("properties", {}))
        for key in required:
            properties.setdefault(key, True)
        for key, one in properties.items():
            if one is not False:
                yield key, one, f"{pointer}/properties/{_escaped(key)}", key in required

    def resolved(self, schema: Any, pointer: str, depth: int) -> tuple[Any, str]:
        """The schema behind a local `$ref`, and where it stands.

        Raises:
            UnsupportedFeature: it is no local one, or leads back to itself.
        """
        while isinstance(schema, Mapping) and "$ref" in schema:
            self.only(schema, {"$ref"}, pointer)
            pointer, depth = schema["$ref"], depth + 1
            found = self.at(pointer)
            if found is None or depth > DEEPEST:
                raise self.refusal(pointer, "$ref")
            schema = found
        if depth > DEEPEST:
            raise self.refusal(pointer, "$ref to itself")
        return schema, pointer

    def subschema(self, pointer: str, escapes: Any = "any", **more: str) -> JsonSchema:
        """The language of the subschema at `pointer`, with keywords `more` beside it."""
        return JsonSchema(
            {"$ref": self._uri + quote(pointer, safe="#/~"), **more},
            resources={self._uri: self._grammar.text, **dict(self._grammar.resources)},
            escapes=escapes,
            formats=self._grammar.formats,
            draft=self._grammar.draft,
        )

    def only(self, schema: Mapping[str, Any], known: set[str], pointer: str) -> None:
        """Refuses keywords that are neither `known` nor annotations."""
        for keyword in schema:
            if keyword not in known and not is_annotation(keyword):
                raise self.refusal(pointer, keyword)

    def refusal(self, pointer: str, keyword: str) -> UnsupportedFeature:
        """What such a keyword at such a place is refused with."""
        return UnsupportedFeature(
            f"tool {self.name!r}: the format {self._format!r} cannot hold {keyword} here; take another format, as hermes or json",
            pointer=pointer.removeprefix("#"),
            keyword=keyword,
        )

    def at(self, pointer: Any) -> Any:
        """The subschema at a local pointer; `None` where there is none."""
        if not isinstance(pointer, str) or not pointer.startswith("#"):
            return None
        found = self._root
        for step in pointer[1:].split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and key in found:
                found = found[key]
            elif isinstance(found, list) and key.isdigit() and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found


def is_annotation(keyword: str) -> bool:
    """Whether a keyword says nothing of the value, but for `type`, which all readers look at."""
    return keyword in _ANNOTATIONS


def types_of(schema: Any) -> tuple[str, ...]:
    """What `type` says; nothing where it is missing."""
    kinds = schema.get("type", ()) if isinstance(schema, Mapping) else ()
    return (kinds,) if isinstance(kinds, str) else tuple(kinds)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
