"""Random walks under masks of infinite languages: they end, and in documents that a validator accepts."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from typing import Any

import jsonschema
import pytest

from constrained.compile import Constraint
from constrained.vocabulary import Vocabulary
from grammars import JsonSchema, Regex
from tests.constrained.languages import fresh_constraint, mask

STRUCTURE = [
    '{"',
    '": ',
    '"} ',
    '"}, ',
    '},{"',
    "],[",
    "]}",
    "[]",
    "{}",
    '": "',
    '":{"',
    '":[',
    ' ,"',
    "\n\n",
    '"}]}',
    "},\n",
]
WORDS = """
true false null rue, ull, tru 12 -1 0.5 1e .0 00 999 E+ the ing he "a" "b": "name":" "kind":" "next":null "next":{
"items":[ "leaf" "node" 2024- -01 :00 Z" @example .com" \\" \\n \\u00 \\u \\ud83d \\ude00 é ü 漢 😀 naïve 日本
a@b aaaaaaaa
"""


def realistic_vocabulary() -> Vocabulary:
    """All bytes, words that cross terminals, runs of spaces, parts of characters."""
    words = [word.encode() for word in (*STRUCTURE, *WORDS.split())]
    words += [b" " * count for count in range(2, 20)]
    words += ["😀".encode()[:2], "漢".encode()[1:], b'\x80"', b"\xf0\x9f\x98"]
    tokens: list[bytes | None] = [*(bytes([byte]) for byte in range(256)), *words]
    return Vocabulary.from_token_bytes([*tokens, None], eos_token_ids=[len(tokens)], logits_size=len(tokens) + 7)


TREE = {
    "$defs": {
        "node": {
            "type": "object", "required": ["kind"],
            "properties": {
                "kind": {"enum": ["leaf", "node", "é"]}, "items": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]},
            },
        }
    },
    "$ref": "#/$defs/node",
}  # fmt: skip
SCHEMAS: dict[str, Any] = {
    "anything": True,
    "tree": TREE,
    "numbers": {"type": "array", "items": {"type": "number", "minimum": -3, "exclusiveMaximum": 12.5}, "minItems": 2},
    "integers": {"type": "array", "items": {"type": "integer", "multipleOf": 3, "maximum": 900}, "minItems": 1},
    "strings": {"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 5}, "maxItems": 4},
    "patterns": {"type": "array", "items": {"type": "string", "pattern": "^(a|bc){2,4}d?$"}, "minItems": 1},
    "dates": {"type": "array", "items": {"type": "string", "format": "date-time"}, "minItems": 1},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1},
    "keys": {
        "type": "object", "properties": {"a": {"type": "null"}, "name": {"type": "string"}}, "required": ["name"],
        "patternProperties": {"^x-": {"type": "boolean"}}, "additionalProperties": {"type": "array", "maxItems": 1},
    },
    "either": {
        "anyOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "null"}}, "required": ["b"]},
            {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "minItems": 2, "items": False},
        ]
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return realistic_vocabulary()


def number(text: str) -> int | Fraction:
    """A JSON number, exactly; exponents beyond 300 say no more than 300 to these schemas."""
    mantissa, _, exponent = text.lower().partition("e")
    value = Fraction(mantissa) * Fraction(10) ** max(-300, min(300, int(exponent or 0)))
    return int(value) if value.denominator == 1 else value


def parsed(text: bytes) -> Any:
    return json.loads(text, parse_float=number)


def walked(constraint: Constraint, limit: int, seed: int) -> bytes:
    """A sentence by uniform choice among the allowed tokens, every so often only among long ones."""
    chance = random.Random(seed)
    matcher = constraint.matcher(max_tokens=limit)
    tokens = constraint.vocabulary.tokens
    while not matcher.is_finished():
        allowed = sorted(mask(matcher))
        assert allowed, f"stuck after {matcher.text!r}"
        words = [token for token in allowed if token >= 256 and token < len(tokens)]
        matcher.accept(chance.choice(words if words and chance.random() < 0.7 else allowed))
        assert len(matcher.tokens) <= limit
    return matcher.text


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_walks_end_in_valid_documents(vocabulary: Vocabulary, name: str, order: str) -> None:
    schema = SCHEMAS[name]
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    constraint = fresh_constraint(JsonSchema(schema, property_order=order), vocabulary)
    # in any order a budget over open objects is searched for long: fewer walks keep the suite quick
    for seed in range(12 if order == "schema" else 3):
        text = walked(constraint, 24 + 8 * (seed % 6), seed).decode()
        assert validator.is_valid(parsed(text.encode())), text
        bounded = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        assert re.search(r"\s\s(?<!\n )(?<!\n\t)", re.sub(r"\n[ \t]*", "\n", bounded)) is None, text


@pytest.mark.parametrize("whitespace", ["compact", "any", " ?"])
def test_walks_keep_to_the_whitespace_that_is_asked_for(vocabulary: Vocabulary, whitespace: str) -> None:
    constraint = fresh_constraint(JsonSchema(TREE, whitespace=whitespace), vocabulary)
    for seed in range(6):
        text = walked(constraint, 60, seed).decode()
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        assert jsonschema.Draft202012Validator(TREE).is_valid(json.loads(text))
        if whitespace == "compact":
            assert not re.search(r"\s", outside)
        elif whitespace == " ?":
            assert not re.search(r"\s\s|\n|\t", outside)


@pytest.mark.parametrize("pattern", [r"(\w+ ){2,}\w+\.", r"[^\n]*\n", "(é|😀)+", r"\d{3}-\d{4}|x*y"])
def test_walks_of_patterns_match_them(vocabulary: Vocabulary, pattern: str) -> None:
    constraint = fresh_constraint(Regex(pattern), vocabulary)
    for seed in range(8):
        assert re.fullmatch(pattern, walked(constraint, 25, seed).decode())


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_prefix_of_a_walk_can_be_completed_as_shortly_as_is_said(vocabulary: Vocabulary, name: str) -> None:
    schema = SCHEMAS[name]
    constraint = fresh_constraint(JsonSchema(schema), vocabulary)
    chance = random.Random(7)
    for _ in range(4):
        matcher = constraint.matcher()
        for _ in range(25):
            allowed = sorted(mask(matcher) - {len(vocabulary.tokens) - 1})
            if not allowed:
                break
            matcher.accept(chance.choice(allowed))
            rest = matcher.shortest_completion()
            assert jsonschema.Draft202012Validator(schema).is_valid(parsed(matcher.text + rest))
            other = matcher.fork()
            assert other.accept_many(rest) == len(rest)
            assert other.is_accepting()
