"""Values that several alternatives of an object wait for at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from constrained import Vocabulary, compile
from grammars import JsonSchema, LimitExceeded

BYTES = Vocabulary.from_token_bytes([*[bytes([byte]) for byte in range(256)], None], eos_token_ids=[256])


def accepts(schema: dict[str, Any], document: Any) -> bool:
    matcher = compile(JsonSchema(schema), BYTES).matcher()
    text = json.dumps(document, ensure_ascii=False).encode()
    return matcher.accept_many(list(text)) == len(text) and matcher.is_accepting()


def alternatives(kinds: int) -> dict[str, Any]:
    """Forty objects; `kind` is one of so many constants, `n` says which object it is."""
    shape = {"type": "object", "required": ["kind", "n"], "additionalProperties": False}
    return {
        "anyOf": [
            {
                **shape,
                "properties": {"kind": {"const": f"k{n % kinds}", "enum": [f"k{n % kinds}", n]}, "n": {"const": n}},
            }
            for n in range(40)
        ]
    }


def test_alternatives_that_wait_for_equal_values_count_once() -> None:
    schema = alternatives(6)
    assert accepts(schema, {"kind": "k3", "n": 9})
    assert not accepts(schema, {"kind": "k3", "n": 8})


def test_too_many_different_values_at_a_time_are_a_limit_with_a_place() -> None:
    with pytest.raises(LimitExceeded, match="40 overlapping alternatives"):
        accepts(alternatives(40), {"kind": "k3", "n": 3})
