"""Ways to the end that come from shapes: they are allowed, they are valid, and nearly as short as the searched ones."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import numpy as np
import pytest

from constrained import Vocabulary, compile
from constrained.automata.completions import Completions
from grammars import JsonSchema

WORDS = [b'":', b'","', b"},", b'{"', b'"a":', b"true", b"]}", b"12", b'"}', b"ab"]
VOCABULARY = Vocabulary.from_token_bytes(
    [*[bytes([byte]) for byte in range(256)], *WORDS, None], eos_token_ids=[256 + len(WORDS)]
)

FILE = {
    "oneOf": [
        {"type": "array", "maxItems": 0},
        {"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#/$defs/whole"}, {"$ref": "#/$defs/far"}]}},
        {"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#/$defs/bare"}, {"$ref": "#/$defs/far"}]}},
    ],
    "$defs": {
        "whole": {
            "type": "object", "required": ["user", "kind"],
            "properties": {"user": {"type": "string", "minLength": 1}, "kind": {"enum": ["file", "link"]}},
        },
        "bare": {
            "type": "object", "required": ["kind"], "properties": {"kind": {"enum": ["file", "far"]}},
            "not": {"$ref": "#/$defs/whole"},
        },
        "far": {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": ["far"]}}},
    },
}  # fmt: skip

SCHEMAS: list[Any] = [
    FILE,
    {"type": "object", "minProperties": 2, "patternProperties": {"^a": {"type": "integer", "minimum": 10}}},
    {"type": "object", "minProperties": 2, "additionalProperties": False, "properties": {"a": {}, "b": False, "c": {}}},
    {"type": "array", "contains": {"type": "integer", "minimum": 100}, "minContains": 2, "maxItems": 4},
    {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"enum": [1, 2, "a", None]}},
    {"type": "array", "prefixItems": [{"const": {"x": [1]}}, {"type": "string", "minLength": 3}], "minItems": 4},
    {"type": "object", "not": {"additionalProperties": {"type": "string"}}, "required": ["a"]},
    {"type": "array", "not": {"uniqueItems": True}, "items": {"type": "boolean"}},
    {
        "anyOf": [
            {"properties": {"a": {"const": 1}, "b": {"type": "string", "minLength": 20}}, "required": ["a", "b"]},
            {"properties": {"a": {"enum": [1, 2]}, "c": {"const": 0}}, "required": ["a", "c"]},
        ],
        "type": "object",
    },
    {"enum": [{"k1": 1, "z": 1}, {"k2": 2, "z": 1}, {"k21": 3}, {"b": [1, {"c": None}]}, ["x", 1.5], "abc"]},
    {"type": "array", "items": {"type": "string", "pattern": "^(ab|é){2,}$"}, "minItems": 1},
]


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:60])
def test_whatever_was_read_the_outline_ends_it_in_a_valid_document(schema: Any, order: Any) -> None:
    constraint = compile(JsonSchema(schema, property_order=order), VOCABULARY)
    validator = jsonschema.Draft202012Validator(schema)
    completions = Completions(constraint.matcher().store.machine)
    row = np.zeros(VOCABULARY.row_words, dtype=np.uint32)
    rng = random.Random(1)
    known = 0
    for _ in range(3):
        matcher = constraint.matcher(max_tokens=40)
        while not matcher.is_finished():
            found = completions._outlined(*matcher.configuration())
            if found is not None:
                known += 1
                ended = matcher.text + found
                assert validator.is_valid(json.loads(ended)), ended
                fresh = constraint.matcher()
                assert fresh.accept_many(list(ended)) == len(ended) and fresh.is_accepting(), ended
                if known % 8 == 0:
                    assert len(completions.shortest(*matcher.configuration())) <= len(found)
            matcher.fill_mask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            matcher.accept(int(rng.choice(allowed)))
    assert known > 20


def test_a_document_is_finished_where_a_search_byte_by_byte_does_not_get_through() -> None:
    item = {"user": "u", "kind": "file"}
    text = json.dumps([item] * 12)[:-1].encode()
    matcher = compile(JsonSchema(FILE), VOCABULARY).matcher()
    assert matcher.accept_many(list(text)) == len(text)
    assert matcher.shortest_completion() == b"]"
    matcher.accept_many(list(b',{"user":"'))
    completed = matcher.text + matcher.shortest_completion()
    jsonschema.Draft202012Validator(FILE).validate(json.loads(completed))


LONG = {
    "type": "object", "required": ["kind", "text", "more"],
    "properties": {
        "kind": {"enum": ["file", "link", 3]},
        "text": {"type": "string", "minLength": 60},
        "more": {"type": "array", "minItems": 2, "items": {"type": "string", "pattern": "^x[a-c]{2}$"}},
    },
}  # fmt: skip


@pytest.mark.parametrize("schema", [LONG, *SCHEMAS], ids=lambda schema: json.dumps(schema)[:60])
def test_states_that_a_way_out_passes_cost_what_a_search_from_each_of_them_finds(schema: Any) -> None:
    constraint = compile(JsonSchema(schema), VOCABULARY)
    store = constraint.completions
    machine = constraint.matcher().store.machine
    searched = Completions(machine)
    passed = 0
    matcher, row, rng = (
        constraint.matcher(max_tokens=200),
        np.zeros(VOCABULARY.row_words, dtype=np.uint32),
        random.Random(2),
    )
    while not matcher.is_finished() and passed < 150:
        way = searched.way_out(matcher.configuration()[0], lambda state: -1)
        for state, cost in () if way is None else way.costs():
            passed += 1
            assert cost == len(searched.leaving(state)) == store.cost(state)
        matcher.fill_mask(row)
        matcher.accept(int(rng.choice(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")))))
    assert passed > 5
