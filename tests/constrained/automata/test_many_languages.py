"""Frames that are left with one of more sets than an action has bits for."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from constrained import Constraint, Vocabulary, compile
from grammars import JsonSchema

VOCABULARY = Vocabulary.from_token_bytes([*[bytes([byte]) for byte in range(256)], None], eos_token_ids=[256])


def accepts(constraint: Constraint, text: str) -> bool:
    matcher = constraint.matcher()
    return matcher.accept_many(list(text.encode())) == len(text) and matcher.is_accepting()


@pytest.mark.parametrize("order", ["schema", "any"])
def test_each_of_forty_patterns_of_keys_has_its_own_values(order: Literal["schema", "any"]) -> None:
    schema = {"patternProperties": {f"^k{number}x": {"const": number} for number in range(40)}}
    constraint = compile(JsonSchema({**schema, "additionalProperties": False}, property_order=order), VOCABULARY)
    for number in range(40):
        assert accepts(constraint, f'{{"k{number}xy":{number},"k1x":1}}')
        assert not accepts(constraint, f'{{"k{number}xy":{number + 1}}}')
    assert not accepts(constraint, '{"k40x":40}')


def test_undeclared_keys_of_thirty_alternatives_are_told_apart_beside_declared_ones() -> None:
    alternatives: list[dict[str, Any]] = [
        {
            "properties": {"name": {"type": "null"}},
            "patternProperties": {f"^({number}|all)$": {"enum": [number, "any"]}},
            "additionalProperties": False,
        }
        for number in range(30)
    ]
    constraint = compile(JsonSchema({"type": "object", "anyOf": alternatives}, property_order="any"), VOCABULARY)
    assert accepts(constraint, '{"29":29,"name":null,"all":"any"}')
    assert accepts(constraint, '{"all":22,"22":22}')
    assert not accepts(constraint, '{"all":22,"23":23}')
    assert not accepts(constraint, '{"30":30}')
