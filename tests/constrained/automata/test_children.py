"""Values that several alternatives of an object wait for at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from constrained import Vocabulary, compile
from grammars import JsonSchema

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


@pytest.mark.parametrize("kinds", [30, 40])
def test_any_number_of_values_can_be_told_apart(kinds: int) -> None:
    schema = alternatives(kinds)
    assert accepts(schema, {"kind": "k3", "n": 3})
    assert not accepts(schema, {"kind": "k3", "n": 4})
    assert accepts(schema, {"kind": 7, "n": 7}) is False  # `const` and `enum` ask for the text


LISTED: dict[str, tuple[list[Any], list[Any]]] = {
    "objects": (
        [{"id": n, "name": f"item {n}", "even": n % 2 == 0} for n in range(1000)],
        [{"id": 7, "name": "item 8", "even": False}, {"id": 7, "name": "item 7", "even": True}, {"id": 7}, {}],
    ),
    "arrays": (
        [[n, f"x{n}", [n % 7]] for n in range(1000)],
        [[8, "x8", [2]], [8, "x9", [1]], [8, "x8"], [8, "x8", [1], 1], [1000, "x1000", [6]]],
    ),
    "keys": (
        [{f"k{n}": n, "z": {"é": n / 4}} for n in range(200)],
        [{"k8": 8, "z": {"é": 2.25}}, {"k8": 9, "z": {"é": 2}}, {"z": {"é": 2}}, {"k8": 8, "k9": 9, "z": {"é": 2}}],
    ),
    "mixed": (
        [*range(300), *[f"{n}" for n in range(300)], *[[n] for n in range(300)], *[{"n": n} for n in range(300)], None],
        [300, "300", "07", [300], [1, 2], {"n": 300}, {"n": "1"}, True],
    ),
}


@pytest.mark.parametrize("kind", LISTED)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_long_lists_of_constants_hold_each_of_them_and_nothing_else(kind: str, order: Any) -> None:
    listed, others = LISTED[kind]
    constraint = compile(JsonSchema({"enum": listed}, property_order=order), BYTES)

    def accepted(document: Any) -> bool:
        matcher = constraint.matcher()
        text = json.dumps(document, ensure_ascii=False).encode()
        return matcher.accept_many(list(text)) == len(text) and matcher.is_accepting()

    assert all(map(accepted, listed[::37]))
    assert not any(map(accepted, others))
    matcher = constraint.matcher(max_tokens=80)
    assert json.loads(matcher.shortest_completion()) in listed


def test_listed_objects_are_held_against_the_keywords_beside_them() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"maximum": 650}},
        "enum": [{"n": n, "m": str(n)} for n in range(900)],
    }
    assert accepts(schema, {"n": 640, "m": "640"})
    assert not accepts(schema, {"n": 660, "m": "660"})
    assert not accepts(schema, {"n": 640, "m": "641"})
