"""A JSON Schema as a form that a small model can read: `{"name": string, "born": integer (year of birth)}`.

The mask holds the exact schema; a prompt only has to say what belongs where.  Small models copy values far better into
such a form than under the JSON Schema itself, and it takes about half the tokens.
"""

from __future__ import annotations

import json
from typing import Any

_FORMATS = {
    "date": "date as YYYY-MM-DD",
    "time": "time as hh:mm:ssZ",
    "date-time": "time as YYYY-MM-DDThh:mm:ssZ",
    "duration": "duration as PnDTnHnM",
}
_MOST_CHOICES = 24
_MOST_PROPERTIES = 40
_DEEPEST = 6


def sketch(schema: Any) -> str:
    """The form of the instances of a schema, on one line.

    References into the document are followed, each until it would repeat itself; what goes too deep, or is
    one of too many, is left out as `...`.
    """
    return _Sketch(schema).of(schema, (), 0)


class _Sketch:
    def __init__(self, root: Any) -> None:
        self._root = root

    def of(self, schema: Any, seen: tuple[str, ...], depth: int) -> str:
        """The form of one subschema; `seen` are the references that led to it."""
        if not isinstance(schema, dict):
            return "any"
        if depth > _DEEPEST:
            return "..."
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in seen:
                return "..."
            target = self._target(reference)
            return reference if target is None else self.of(target, (*seen, reference), depth)
        note = f" ({' '.join(schema['description'].split())})" if isinstance(schema.get("description"), str) else ""
        return self._form(schema, seen, depth) + note

    def _form(self, schema: dict[str, Any], seen: tuple[str, ...], depth: int) -> str:
        if "const" in schema:
            return _json(schema["const"])
        if isinstance(schema.get("enum"), list):
            return _alternatives([_json(value) for value in schema["enum"]])
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list) and "properties" not in schema:
                return _alternatives([self.of(branch, seen, depth + 1) for branch in schema[keyword]])
        merged = schema
        for part in schema.get("allOf", ()) if isinstance(schema.get("allOf"), list) else ():
            if isinstance(part, dict):
                merged = {**part, **merged}
        return _alternatives([self._typed(kind, merged, seen, depth) for kind in _types(merged)])

    def _typed(self, kind: str, schema: dict[str, Any], seen: tuple[str, ...], depth: int) -> str:
        if kind == "object":
            return self._object(schema, seen, depth)
        if kind == "array":
            return self._array(schema, seen, depth)
        if kind == "string":
            known = schema.get("format")
            return _FORMATS.get(known, known) if isinstance(known, str) else "string"
        # No bounds: a small model takes them for values.
        return kind

    def _object(self, schema: dict[str, Any], seen: tuple[str, ...], depth: int) -> str:
        properties = schema.get("properties")
        named = list(properties.items()) if isinstance(properties, dict) else []
        members = [f"{_json(name)}: {self.of(value, seen, depth + 1)}" for name, value in named[:_MOST_PROPERTIES]]
        rest = schema.get("additionalProperties", not named)
        if isinstance(rest, dict):
            members.append(f"...: {self.of(rest, seen, depth + 1)}")
        elif rest or len(named) > _MOST_PROPERTIES:
            members.append("...")
        return "{" + ", ".join(members) + "}"

    def _array(self, schema: dict[str, Any], seen: tuple[str, ...], depth: int) -> str:
        first = schema.get("prefixItems")
        items = [self.of(item, seen, depth + 1) for item in first] if isinstance(first, list) else []
        rest = schema.get("items", True)
        if rest is not False and not (items and rest is True):
            items += [self.of(rest, seen, depth + 1), "..."]
        return "[" + ", ".join(items) + "]"

    def _target(self, reference: str) -> Any:
        """What a reference into this document points to; `None` for others."""
        if not reference.startswith("#"):
            return None
        place = self._root
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(place, dict) and name in place:
                place = place[name]
            elif isinstance(place, list) and name.isdigit() and int(name) < len(place):
                place = place[int(name)]
            else:
                return None
        return place


def _types(schema: dict[str, Any]) -> list[str]:
    kind = schema.get("type")
    if isinstance(kind, list):
        return [str(one) for one in kind] or ["any"]
    if isinstance(kind, str):
        return [kind]
    for keyword, implied in (
        ("properties", "object"),
        ("items", "array"),
        ("prefixItems", "array"),
        ("pattern", "string"),
    ):
        if keyword in schema:
            return [implied]
    return ["any"]


def _alternatives(forms: list[str]) -> str:
    distinct = list(dict.fromkeys(forms))
    if len(distinct) > _MOST_CHOICES:
        distinct = [*distinct[:_MOST_CHOICES], "..."]
    return " | ".join(distinct)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=float)
