"""How much memory a grammar takes that has been compiled, apart from its states: its texts, and what was read from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from grammars import Gbnf, JsonSchema, Lark

_OTHERS = 48
_BYTES_PER_CHARACTER: Mapping[type, int] = {JsonSchema: 12, Gbnf: 64, Lark: 500}
"""Measured on grammars of 50 to 600 KB, and on 900 schemas of all sizes: parsed documents, rules, tables of parsers."""


def source_bytes(grammar: Any) -> int:
    """An estimate by the length of the texts in a grammar and in those that it is made of."""
    total = 0
    pending = [(grammar, _OTHERS)]
    while pending:
        value, each = pending.pop()
        if isinstance(value, str):
            total += len(value) * each
        elif isinstance(value, tuple | frozenset | list):
            pending.extend((item, each) for item in value)
        elif is_dataclass(value):
            each = _BYTES_PER_CHARACTER.get(type(value), each)
            pending.extend(
                (getattr(value, field.name), each) for field in fields(value) if not field.name.startswith("_")
            )
    return total
