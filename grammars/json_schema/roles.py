"""What each keyword of a schema is for its draft and the caller's options: an assertion, or an annotation and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grammars.json_schema.drafts import DRAFTS, UNMARKED, Draft, asserts_formats
from grammars.json_schema.formats import format_rx
from grammars.json_schema.references import Registry, Resource, subschemas
from grammars.values import Formats, JsonSchema

_HOLDERS = frozenset({"$defs", "definitions"})
_ALL_KEYWORDS = frozenset[str]().union(*[draft.keywords for draft in (*DRAFTS.values(), UNMARKED)])
# Keywords that say nothing unless another one stands beside them.
_NEEDS = {
    "then": "if", "else": "if", "minContains": "contains", "maxContains": "contains", "additionalItems": "items",
}  # fmt: skip

# As booleans, in draft 4, they say something of another keyword.
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


@dataclass(frozen=True, slots=True)
class Roles:
    """The keywords of one subschema.

    Attributes:
        pointer: JSON pointer of the subschema in its document.
        asserted: keywords that constrain instances.
        annotations: the others, each with the reason where one might expect otherwise, else an empty text.
    """

    pointer: str
    asserted: tuple[str, ...]
    annotations: tuple[tuple[str, str], ...]


def roles(grammar: JsonSchema) -> Iterator[Roles]:
    """The keywords of every subschema that may count, in the document's order; what is malformed is passed over."""
    registry = Registry(grammar)
    stack: list[tuple[Any, str, Resource]] = [(registry.root.root, "", registry.root)]
    while stack:
        schema, pointer, parent = stack.pop()
        if not isinstance(schema, dict):
            continue
        resource = registry.embedded(schema, parent, pointer)
        here = _roles(schema, pointer, resource.draft, grammar.formats)
        yield here
        places = {keyword: place for place, keyword in enumerate(schema)}
        held = []
        for child, below in subschemas(schema):
            keyword = below.split("/", 2)[1]
            if keyword in _HOLDERS or keyword in here.asserted:
                held.append((places[keyword], (child, pointer + below, resource)))
        stack += [one for _, one in sorted(held, key=lambda entry: entry[0], reverse=True)]


def _roles(schema: dict[str, Any], pointer: str, draft: Draft, formats: Formats) -> Roles:
    asserted: list[str] = []
    annotations: list[tuple[str, str]] = []
    for keyword in schema:
        reason = _reason(schema, keyword, draft, formats)
        if reason is None:
            asserted.append(keyword)
        else:
            annotations.append((keyword, reason))
    return Roles(pointer, tuple(asserted), tuple(annotations))


def _reason(schema: dict[str, Any], keyword: str, draft: Draft, formats: Formats) -> str | None:
    """Why a keyword is an annotation here; `None` where it is an assertion."""
    if keyword not in draft.keywords:
        return f"not a keyword of draft {draft.name}" if keyword in _ALL_KEYWORDS else ""
    if draft.ref_alone and "$ref" in schema and keyword != "$ref":
        return f"ignored beside $ref in draft {draft.name}"
    beside = _NEEDS.get(keyword)
    if beside is not None and beside not in schema:
        return f"without {beside}"
    if keyword == "if" and "then" not in schema and "else" not in schema:
        return "without then and else"
    if keyword in _BOUNDS and isinstance(schema[keyword], bool) and _BOUNDS[keyword] not in schema:
        return f"without {_BOUNDS[keyword]}"
    if keyword == "additionalItems" and not isinstance(schema["items"], list):
        return "items is no list"
    if keyword != "format":
        return None
    if formats == "annotate":
        return 'formats="annotate"'
    name = schema[keyword]
    if isinstance(name, str) and formats != "strict" and format_rx(name, draft.name) is None:
        return f"{name!r} is not known"
    return None if asserts_formats(draft, formats) else f"by draft {draft.name}"
