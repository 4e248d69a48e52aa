"""Schemas that are large, or say much in few words: what is asked of them costs what is used of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from grammars import JsonSchema, LimitExceeded
from grammars.effort import bounded
from grammars.json_schema import Value, check_root, root_value
from grammars.json_schema.formulas import Node
from grammars.json_schema.shortest import shortest_document
from grammars.regular import Rx, matches, moves


def string_of(schema: dict[str, Any]) -> Rx:
    value = root_value(JsonSchema({"type": "string", **schema}))
    check_root(value)
    return value.alternatives().string


def visited(rx: Rx, states: int) -> int:
    """How many states, up to a number, are reached in a walk that goes deep first."""
    seen, waiting = {rx}, [rx]
    while waiting and len(seen) < states:
        for _, target in moves(waiting.pop()):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return len(seen)


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^(a{1000}){1000}$"},
        {"pattern": "^((a|b){1000}c?){1000}$"},
        {"pattern": "^((a?){1000}b?){1000}$"},
        {"pattern": "^(a{0,1000}b{0,1000}){0,1000}$"},
        {"pattern": "^[a-z]{10000}$"},
        {"pattern": "[a-z]{10000}"},
        {"pattern": "^(a|b)*a(a|b){200}$"},
        {"minLength": 10**9},
        {"minLength": 1000, "pattern": "^([a-z][0-9])+$"},
    ],
)
def test_repeats_cost_what_is_read_of_them(schema: dict[str, Any]) -> None:
    with bounded(steps=20_000):
        assert visited(string_of(schema), 200) >= 200


def test_what_takes_too_long_to_tell_from_nothing_is_refused_with_its_place() -> None:
    hard = {"allOf": [{"pattern": "^(a|b)*a(a|b){14}$"}, {"pattern": "^(a|b)*b(a|b){14}$"}]}
    with pytest.raises(LimitExceeded) as caught:
        root_value(JsonSchema({"properties": {"x": hard}})).alternatives().objects[0].properties[0].value.is_empty()
    assert caught.value.pointer == "/properties/x"


def test_a_hundred_thousand_constants_are_one_step() -> None:
    with bounded(steps=5_000):
        texts = string_of({"enum": [f"value {n}" for n in range(100_000)]})
        assert matches(texts, "value 77777") and not matches(texts, "value 100000")
        numbers = root_value(JsonSchema({"enum": list(range(100_000))})).alternatives().number
        assert matches(numbers, "77777") and matches(numbers, "7.7777e4") and not matches(numbers, "100000")


def test_hundreds_of_branches_with_a_discriminator_are_not_compared_in_pairs() -> None:
    branches = [
        {"type": "object", "required": ["kind"], "properties": {"kind": {"const": f"k{n}"}, "v": {"type": "integer"}}}
        for n in range(400)
    ]
    with bounded(steps=10_000):
        assert len(root_value(JsonSchema({"oneOf": branches})).alternatives().objects) == 400


def test_definitions_that_are_not_in_use_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    definitions = {
        f"d{n}": {
            "type": "object", "required": ["a"],
            "properties": {"a": {"$ref": f"#/definitions/d{(7 * n + 1) % 3000}"}, "b": {"pattern": f"^x{n}"}},
        }
        for n in range(1, 3000)
    }  # fmt: skip
    definitions["d0"] = {"type": "object", "properties": {"next": {"$ref": "#/definitions/d1"}}}
    made = []
    evaluate = Node.raw

    def counted(node: Node) -> Any:
        made.append(node)
        return evaluate(node)

    monkeypatch.setattr(Node, "raw", counted)
    schema = json.dumps({"$ref": "#/definitions/d0", "definitions": definitions})
    value = root_value(JsonSchema(schema))
    check_root(value)
    assert value.alternatives().objects
    assert len(set(made)) <= 3


LONG = "1" + "0" * 5000
"""More digits than Python turns into an `int`."""


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        (f'{{"const": {LONG}}}', b"1e5000"),
        (f'{{"enum": [{{"a": [-{LONG}]}}]}}', b'{"a":[-1e5000]}'),
        (f'{{"type": "number", "minimum": {LONG}}}', b"1e5000"),
        (f'{{"type": "null", "default": {LONG}, "maximum": {LONG}}}', b"null"),
        ('{"type": "number", "minimum": 1e999999999999}', b"1e999999999999"),
    ],
)
def test_numbers_of_any_size_are_exact(text: str, shortest: bytes) -> None:
    assert shortest_document(root_value(JsonSchema(text))) == shortest
    held = JsonSchema({"$ref": "urn:held"}, resources={"urn:held": text})
    assert shortest_document(root_value(held)) == shortest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'{{"maxLength": {LONG}}}', "maxLength has more than 1000 digits"),
        ('{"type": "array", "minItems": 1e999999999999}', "minItems has more than 1000 digits"),
        (f'{{"multipleOf": {LONG}}}', "more than 5000 decimal places"),
        ('{"const": 1e99999999999999999999}', "the number 1e99999999999999999999 is out of range"),
    ],
)
def test_what_is_too_large_to_be_worked_with_is_a_limit(text: str, message: str) -> None:
    with pytest.raises(LimitExceeded, match=message):
        root_value(JsonSchema(text)).alternatives()


def test_small_branches_of_one_of_settle_what_an_optional_discriminator_leaves_open(
    holds: Callable[[Value, Any], bool],
) -> None:
    def branch(number: int, properties: int) -> dict[str, Any]:
        own = {f"p{number}-{one}": {"type": "integer"} for one in range(properties)}
        return {"type": "object", "properties": {"kind": {"enum": [f"k{number}"]}, **own}}

    schema = {"oneOf": [branch(0, 0), *[branch(number, 9) for number in range(1, 12)], branch(12, 0)]}
    value = root_value(JsonSchema(schema))
    judge = jsonschema.Draft202012Validator(schema)
    for document in [
        {}, {"kind": "k0"}, {"kind": "k3"}, {"kind": "k3", "p3-1": 1}, {"kind": "k3", "p3-1": "", "p4-1": ""}, {"p3-1": ""},
        {"kind": "k12"}, {f"p{number}-0": "" for number in range(1, 12)}, {f"p{number}-0": "" for number in range(2, 12)},
    ]:  # fmt: skip
        assert holds(value, document) == judge.is_valid(document), document
