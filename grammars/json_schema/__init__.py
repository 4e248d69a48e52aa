"""JSON Schema, resolved lazily: schema → `Value` → `Alternatives` of typed shapes.

`root_value` gives the root position, `check_root` refuses a schema without instances, `check_reachable` looks at all of
it, `shapes` is what the rest of the house works on.
"""

from __future__ import annotations

from grammars.json_schema.emptiness import check_root
from grammars.json_schema.formats.registry import prepare_formats
from grammars.json_schema.positions import root_value
from grammars.json_schema.reachable import check_reachable
from grammars.json_schema.references import format_asserted
from grammars.json_schema.roles import Roles, roles
from grammars.json_schema.scalars import FormatWarning
from grammars.json_schema.shapes import (
    Alternatives,
    ArrayShape,
    ItemCount,
    KeyGroup,
    KeyWitness,
    ObjectShape,
    Property,
    Value,
)
from grammars.json_schema.shortest import shortest_document, shortest_size

__all__ = [
    "Alternatives",
    "ArrayShape",
    "FormatWarning",
    "ItemCount",
    "KeyGroup",
    "KeyWitness",
    "ObjectShape",
    "Property",
    "Roles",
    "Value",
    "check_reachable",
    "check_root",
    "format_asserted",
    "prepare_formats",
    "roles",
    "root_value",
    "shortest_document",
    "shortest_size",
]
