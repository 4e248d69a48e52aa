"""Array keywords of one schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grammars.json_schema.array_algebra import ANY_ARRAY, array_shape
from grammars.json_schema.formulas import TRUE, Node
from grammars.json_schema.reader import flag, malformed, natural
from grammars.json_schema.shapes import ArrayShape, ItemCount

if TYPE_CHECKING:
    from grammars.json_schema.positions import SchemaValue

ARRAY_KEYWORDS = frozenset({
    "items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains",
    "unevaluatedItems",
})  # fmt: skip


def array_shapes(value: SchemaValue, present: frozenset[str]) -> tuple[ArrayShape, ...]:
    """The arrays that the schema's own keywords admit."""
    if ARRAY_KEYWORDS.isdisjoint(present):
        return (ANY_ARRAY,)
    schema, pointer = value.schema, value.pointer
    prefix, rest = items_of(value, present)
    least = natural(schema, "minItems", pointer) or 0 if "minItems" in present else 0
    most = natural(schema, "maxItems", pointer) if "maxItems" in present else None
    unique = flag(schema, "uniqueItems", pointer) if "uniqueItems" in present else False
    counts = []
    if "contains" in present:
        contained = value.child(schema["contains"], "contains")
        at_least = natural(schema, "minContains", pointer) if "minContains" in present else 1
        at_most = natural(schema, "maxContains", pointer) if "maxContains" in present else None
        counts.append(ItemCount(contained, 1 if at_least is None else at_least, at_most))
    shape = array_shape(prefix, rest, least, most, counts, unique)
    return () if shape is None else (shape,)


def items_of(value: SchemaValue, present: frozenset[str]) -> tuple[list[Node], Node]:
    """Values of the first items and of all that follow, from `prefixItems`, `items` and `additionalItems`."""
    schema, draft, pointer = value.schema, value.resource.draft, value.pointer
    prefix: list[Node] = []
    rest = TRUE
    if "prefixItems" in present:
        prefix = _positions(value, "prefixItems")
    if "items" in present:
        items = schema["items"]
        if not isinstance(items, list):
            rest = value.child(items, "items")
        elif not draft.tuple_items or "prefixItems" in present:
            raise malformed("items", "one schema in this draft (the tuple form is prefixItems)", items, pointer)
        else:
            prefix = _positions(value, "items")
            if "additionalItems" in schema:
                rest = value.child(schema["additionalItems"], "additionalItems")
    return prefix, rest


def _positions(value: SchemaValue, keyword: str) -> list[Node]:
    operand = value.schema[keyword]
    if not isinstance(operand, list):
        raise malformed(keyword, "a list of schemas", operand, value.pointer)
    return [value.child(item, keyword, str(index)) for index, item in enumerate(operand)]
