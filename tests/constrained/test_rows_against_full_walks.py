"""Rows over a few thousand tokens against running every token on a fork: where bounded languages share rows."""

from __future__ import annotations

import itertools
import random
from functools import cache

import numpy as np
import pytest

from constrained.matcher import Matcher
from constrained.vocabulary import Vocabulary
from grammars import Choice, JsonSchema, Regex
from tests.constrained.languages import Grammar, fresh_constraint, mask

MOST_PLACES = 24


@cache
def medium_vocabulary() -> Vocabulary:
    """About 3,000 tokens: words, quotes and backslashes inside, runs of spaces, digits, pieces of characters."""
    chance = random.Random(5)
    letters = "etaoinshrdlu"
    words = {"".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(1400)}
    words |= {" " + word for word in sorted(words)[::3]}
    words |= {word + tail for word in sorted(words)[::9] for tail in ('"', '",', '":', '"}', '\\"', "\\n", ".")}
    words |= {" " * count for count in range(2, 65)} | {"a" * count for count in range(2, 40)} | {"\n" * 3, "\t\t"}
    words |= {f"{number}" for number in range(10, 300)}
    words |= {"".join(pair) for pair in itertools.product('{}[]",: ', repeat=2)}
    words |= {"".join(chance.choices('é漢😀a"\\nu0', k=chance.randint(2, 5))) for _ in range(250)}
    tokens: list[bytes | None] = [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in sorted(words))]
    tokens += ["漢".encode()[:2], "😀".encode()[1:3], b"\x80\x80", b'\xa9"', None]
    return Vocabulary.from_token_bytes(tokens, eos_token_ids=[len(tokens) - 1])


def naive_mask(matcher: Matcher) -> set[int]:
    """Every token tried on the matcher and taken back."""
    found = set()
    for token in range(matcher.constraint.vocabulary.size):
        if matcher.accept_many([token]):
            found.add(token)
            matcher.rollback(1)
    return found


def check_along(grammar: Grammar, texts: list[bytes]) -> None:
    """Compare the masks at every place of the texts, in shuffled order, on one store."""
    constraint = fresh_constraint(grammar, medium_vocabulary())
    places = sorted({text[:end] for text in texts for end in range(len(text) + 1)})
    random.Random(len(places)).shuffle(places)
    for place in places[:MOST_PLACES]:
        matcher, twin = constraint.matcher(), constraint.matcher()
        assert matcher.accept_many(place) == len(place), place
        assert twin.accept_many(place) == len(place)
        assert mask(matcher) == naive_mask(twin), place
        assert mask(matcher) == mask(twin)


@pytest.mark.parametrize("most", [0, 1, 2, 7, 8, 9, 30])
def test_strings_of_bounded_length(most: int) -> None:
    texts = [b'"' + b"a" * most + b'"', ('"' + ("é😀" * most)[:most] + '"').encode(), b'"' + b"\\n" * min(most, 2)]
    check_along(JsonSchema({"type": "string", "maxLength": most}), texts)


def test_strings_with_a_least_and_a_most_length() -> None:
    check_along(
        JsonSchema({"type": "string", "minLength": 3, "maxLength": 12}), [b'"abcdefghijkl"', '"é\\u00e9漢"'.encode()]
    )


def test_strings_of_a_least_length_that_no_token_reaches() -> None:
    check_along(JsonSchema({"type": "string", "minLength": 80}), [b'"' + b"a" * 81 + b'"'])


def test_arrays_of_bounded_strings_share_their_rows() -> None:
    short, long = {"type": "string", "maxLength": 5}, {"type": "string", "minLength": 4}
    check_along(
        JsonSchema({"type": "array", "items": {"anyOf": [short, long]}}), [b'["abcdef", "a",\n   ""]', b'["abcd"]']
    )


@pytest.mark.parametrize("order", ["schema", "any"])
def test_keys_beside_declared_names(order: str) -> None:
    schema = {
        "type": "object", "properties": {"the": {"type": "null"}, "then": {"type": "integer"}, 'a"b': {"const": "x"}},
        "required": ["the"], "additionalProperties": {"type": "boolean"},
    }  # fmt: skip
    texts = [b'{"the": null, "theme": true,"th\\"x":false}', b'{"the":null,"then":12,"a\\"b":"x","a\\"bc":true}']
    check_along(JsonSchema(schema, property_order=order), texts)


def test_keys_of_patterns() -> None:
    schema = {
        "type": "object", "additionalProperties": False,
        "patternProperties": {"^s[a-z]{2,4}$": {"type": "integer"}, "^t": {"type": "string", "maxLength": 3}},
    }  # fmt: skip
    check_along(JsonSchema(schema), [b'{"sete":12,"tales":"tea"}', b'{"set":1 }'])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^a{3,9}$", b'"aaaaaaaaa"'),
        ("^(ab?){2,5}c{0,20}$", b'"ababaaccccc"'),
        ("^[a-t]{0,12}(\\d{1,3})?$", b'"these123"'),
        ("^(.{4}){1,3}$", b'"the thes"'),
        ("t{2}", b'"abtt  tt"'),
    ],
)
def test_patterns_with_counters(pattern: str, text: bytes) -> None:
    check_along(JsonSchema({"type": "string", "pattern": pattern}), [text])
    check_along(JsonSchema({"type": "string", "pattern": pattern, "maxLength": 11}), [text])


def test_numbers_among_other_things() -> None:
    schema = {"type": "array", "items": {"type": "number", "minimum": 3, "maximum": 250}}
    check_along(JsonSchema(schema), [b"[12, 250,3.25,1e2\n]"])


def test_texts_without_quotes() -> None:
    check_along(Regex(r"[a-z ]{5,40}\."), [b"these are the " + b" " * 20 + b"aaaaaa."])
    check_along(Choice(["then", "the end", "there", "the"]), [b"the end", b"there"])


def test_a_row_does_not_depend_on_how_the_text_was_cut_into_tokens() -> None:
    schema = {"type": "array", "items": {"type": "string", "maxLength": 9}}
    constraint = fresh_constraint(JsonSchema(schema), medium_vocabulary())
    vocabulary = constraint.vocabulary
    text = b'["aaaa", "   ","\\n"]'
    chance = random.Random(2)
    rows: dict[int, np.ndarray] = {}
    for _ in range(12):
        matcher = constraint.matcher()
        while len(matcher.text) < len(text):
            rest = text[len(matcher.text) :]
            row = np.empty(vocabulary.row_words, dtype=np.uint32)
            matcher.fill_mask(row)
            assert (rows.setdefault(len(matcher.text), row) == row).all()
            matcher.accept(
                chance.choice([i for i, one in enumerate(vocabulary.tokens) if one and rest.startswith(one)])
            )
