"""Arrays and objects whose parts depend on one another, against enumeration: every mask, every shortest completion."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from constrained.errors import BudgetError
from constrained.vocabulary import Vocabulary
from grammars import JsonSchema
from tests.constrained.languages import Language, fresh_constraint, mask

LETTERS = [bytes([byte]) for byte in b'[]{},:"ab12']
PIECES = [
    b"1,1", b"1,2", b'","', b"1],[", b"],[", b'"a"', b'"a","a"', b'"b","', b'"a","b"]', b'":1', b'"a":1,"', b'":1,',
    b'":1,"a":', b'b":2,"a', b"[1,2]", b"[1],[1", b"},{", b'{"a":1},', b'",', b",1]", b"1,", b'""', b'":[],"', b'{"b":1}',
]  # fmt: skip
"""Tokens that span items and keys."""
VOCABULARY = Vocabulary.from_token_bytes([*LETTERS, *PIECES, None], eos_token_ids=[len(LETTERS) + len(PIECES)])
OTHERS = [bytes([byte]) for byte in range(256) if bytes([byte]) not in LETTERS]
ALL_BYTES = Vocabulary.from_token_bytes([*LETTERS, *PIECES, *OTHERS, None], eos_token_ids=[256 + len(PIECES)])

SCALARS = [1, 2, "a", "b"]
KEYS = ["a", "b", "ab"]
ITEM: dict[str, Any] = {"enum": SCALARS}
MEMBER: dict[str, Any] = {"enum": [1, 2, "a"]}
KEYED: dict[str, Any] = {"type": "object", "propertyNames": {"enum": KEYS}}
PAIR: dict[str, Any] = {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2}


def arrays(items: list[Any], most: int) -> Iterator[list[Any]]:
    for count in range(most + 1):
        yield from (list(chosen) for chosen in itertools.product(items, repeat=count))


def objects(keys: list[str], values: list[Any]) -> Iterator[dict[str, Any]]:
    for count in range(len(keys) + 1):
        for names in itertools.permutations(keys, count):
            for chosen in itertools.product(values, repeat=count):
                yield dict(zip(names, chosen, strict=True))


def in_schema_order(schema: dict[str, Any], document: dict[str, Any]) -> bool:
    """Declared and required keys first, in their order."""
    order = list(dict.fromkeys([*schema.get("properties", {}), *schema.get("required", [])]))
    first = [name for name in document if name in order]
    return list(document)[: len(first)] == first == sorted(first, key=order.index)


def language(schema: dict[str, Any], documents: Iterator[Any], order: str = "schema") -> Language:
    validator = jsonschema.Draft202012Validator(schema)
    texts = [json.dumps(one, separators=(",", ":")).encode() for one in documents if validator.is_valid(one)]
    assert texts
    return Language(
        JsonSchema(schema, whitespace="compact", property_order=order, escapes="canonical"), frozenset(texts)
    )


def compare(language: Language) -> None:
    constraint = fresh_constraint(language.grammar, VOCABULARY)
    singles = {letter[0]: token for token, letter in enumerate(LETTERS)}
    for prefix in sorted(language.prefixes):
        matcher = constraint.matcher()
        for byte in prefix:
            matcher.accept(singles[byte])
        assert mask(matcher) == language.allowed(prefix, VOCABULARY), prefix
        completion = matcher.shortest_completion()
        assert prefix + completion in language.sentences
        assert len(completion) == language.shortest_completion(prefix), prefix
    choose = random.Random(1)
    for _ in range(20):  # by tokens of any length, with steps back
        matcher = constraint.matcher()
        while not matcher.is_finished():
            allowed = mask(matcher)
            assert allowed == language.allowed(matcher.text, VOCABULARY), matcher.text
            matcher.accept(choose.choice(sorted(allowed)))
            if choose.random() < 0.2:
                fork = matcher.fork()
                matcher.rollback(1)
                assert mask(matcher) == allowed
                matcher = fork


@pytest.mark.parametrize(
    "keywords",
    [
        {"contains": {"const": 1}},
        {"contains": {"enum": [1, "a"]}, "minContains": 2, "maxContains": 2},
        {"contains": {"enum": [1, "a"]}, "minContains": 0, "maxContains": 1},
        {"not": {"items": {"enum": [1, 2]}}},
        {"allOf": [{"contains": {"const": 1}}, {"contains": {"enum": [2, "b"]}}]},
        {"uniqueItems": True},
        {"uniqueItems": True, "minItems": 2},
        {"uniqueItems": True, "contains": {"enum": [1, "a"]}, "minContains": 2},
        {"uniqueItems": True, "contains": {"enum": [1, "a"]}, "maxContains": 1},
        {"uniqueItems": True, "prefixItems": [ITEM, {"enum": [1]}], "items": {"enum": ["a", 1]}, "minItems": 2},
        {"uniqueItems": True, "items": {"enum": [1, "a"]}},
        {"not": {"uniqueItems": True}},
        {"not": {"uniqueItems": True}, "prefixItems": [ITEM, {"enum": [1, "b"]}, {"enum": [1, "a"]}]},
        {"not": {"uniqueItems": True}, "prefixItems": [ITEM, {"enum": [1, "b"]}], "contains": {"const": "a"}},
    ],
    ids=str,
)
def test_items_that_are_counted_or_compared(keywords: dict[str, Any]) -> None:
    schema = {"type": "array", "items": ITEM, "maxItems": 3, **keywords}
    compare(language(schema, arrays(SCALARS, 3)))


@pytest.mark.parametrize(
    ("item", "most", "least"),
    [
        (PAIR, 2, 0),
        (PAIR | {"uniqueItems": True}, 2, 2),
        (PAIR | {"minItems": 1, "maxItems": 1}, 3, 0),
        (PAIR | {"minItems": 2, "contains": {"const": 1}}, 3, 0),
    ],
    ids=str,
)
def test_arrays_that_must_differ(item: dict[str, Any], most: int, least: int) -> None:
    schema = {"type": "array", "items": item, "maxItems": most, "minItems": least, "uniqueItems": True}
    validator = jsonschema.Draft202012Validator(item)
    items = [one for one in arrays([1, 2], 2) if validator.is_valid(one)]
    compare(language(schema, arrays(items, most)))


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(
    "keywords",
    [
        {"additionalProperties": {"enum": [1]}},
        {"additionalProperties": {"enum": [1]}, "minProperties": 3},
        {"additionalProperties": MEMBER, "maxProperties": 2, "minProperties": 1},
        {"additionalProperties": {"enum": [1]}, "properties": {"b": {"enum": [1]}}, "minProperties": 2},
        {"additionalProperties": {"enum": [1]}, "properties": {"b": {"enum": [1]}}, "required": ["a"]},
        {
            "additionalProperties": {"enum": [1, 2]}, "maxProperties": 2,
            "allOf": [{"not": {"additionalProperties": {"enum": [1]}}}],
        },
        {
            "additionalProperties": {"enum": [1, 2]},
            "allOf": [{"not": {"additionalProperties": {"enum": [1]}}}],
        },
        {
            "properties": {"a": MEMBER}, "maxProperties": 2, "allOf": [
                {"additionalProperties": MEMBER}, {"not": {"additionalProperties": {"enum": [1]}}},
                {"not": {"patternProperties": {"b": {"enum": [2, "a"]}}}},
            ],
        },
    ],
    ids=str,
)  # fmt: skip
def test_keys_come_once_and_witnesses_are_found(keywords: dict[str, Any], order: str) -> None:
    schema = KEYED | keywords
    documents = (one for one in objects(KEYS, [1, 2, "a"]) if order == "any" or in_schema_order(schema, one))
    compare(language(schema, documents, order))


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(
    ("item", "most", "least"),
    [
        ({"properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}, 3, 2),
        ({"propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"enum": [1]}, "minProperties": 1}, 2, 0),
        (
            {"properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1]}}, "required": ["a"], "additionalProperties": False},
            2, 2,
        ),
    ],
    ids=str,
)  # fmt: skip
def test_objects_that_must_differ(item: dict[str, Any], most: int, least: int, order: str) -> None:
    item = {"type": "object", **item}
    schema = {"type": "array", "items": item, "maxItems": most, "minItems": least, "uniqueItems": True}
    validator = jsonschema.Draft202012Validator(item)
    items = [
        one for one in objects(["a", "b"], [1, 2])
        if validator.is_valid(one) and (order == "any" or in_schema_order(item, one))
    ]  # fmt: skip
    compare(language(schema, arrays(items, most), order))


ENDLESS: list[dict[str, Any]] = [
    {},
    {"type": "array", "uniqueItems": True},
    {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "items": {"type": "object"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "contains": {"type": "object", "minProperties": 2}, "maxContains": 2},
    {"type": "array", "not": {"uniqueItems": True}},
    {"type": "object", "minProperties": 3},
    {"type": "object", "not": {"additionalProperties": {"type": "integer"}}, "maxProperties": 3},
]


def without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def check(schema: dict[str, Any], text: bytes) -> None:
    document = json.loads(text, object_pairs_hook=without_repeated_keys)
    if "inf" not in repr(document):  # the validator compares floats
        assert jsonschema.Draft202012Validator(schema).is_valid(document), text


@pytest.mark.parametrize("schema", ENDLESS, ids=str)
def test_random_walks_through_endless_languages_stay_valid(schema: dict[str, Any]) -> None:
    constraint = fresh_constraint(JsonSchema(schema, whitespace="compact", escapes="canonical"), ALL_BYTES)
    for seed in range(3):
        choose = random.Random(seed)
        matcher = constraint.matcher()
        while not matcher.is_finished() and len(matcher.tokens) < 100:
            allowed = mask(matcher)
            assert allowed, matcher.text
            matcher.accept(choose.choice(sorted(allowed)))
        check(schema, matcher.text + matcher.shortest_completion())


@pytest.mark.parametrize("schema", [one for one in ENDLESS if "contains" not in one], ids=str)
@pytest.mark.parametrize("limit", [14, 22])
def test_budgets_hold_where_items_or_keys_must_differ(schema: dict[str, Any], limit: int) -> None:
    constraint = fresh_constraint(JsonSchema(schema, whitespace="compact", escapes="canonical"), ALL_BYTES)
    for seed in range(2):
        choose = random.Random(seed)
        try:
            matcher = constraint.matcher(max_tokens=limit)
        except BudgetError:
            return
        while not matcher.is_finished():
            allowed = mask(matcher)
            assert allowed, matcher.text
            matcher.accept(choose.choice(sorted(allowed)))
        assert len(matcher.tokens) <= limit
        check(schema, matcher.text)


def test_equal_numbers_are_the_same_item_in_whatever_writing() -> None:
    constraint = fresh_constraint(JsonSchema({"type": "array", "uniqueItems": True}, whitespace="compact"), ALL_BYTES)
    singles = {data[0]: token for token, data in enumerate(ALL_BYTES.tokens) if data and len(data) == 1}

    def fits(text: bytes) -> bool:
        return constraint.matcher().accept_many(singles[byte] for byte in text) == len(text)

    for text in (
        b"[1,1]", b"[1,1.0]", b"[10,1e1]", b"[0,-0]", b'["a","\\u0061"]', b'[{"a":1,"b":2},{"b":2,"a":1}]', b"[[1],[1.0]]",
    ):  # fmt: skip
        assert not fits(text), text
    for text in (
        b"[1,true]",
        b"[0,false,null]",
        b'[1,"1"]',
        b'[{"a":1},{"a":2}]',
        b"[[1],[1,1]]",
        b"[[],{}]",
        b"[1e300,2,3]",
    ):
        assert fits(text), text
