"""Masks against their definition: a token is allowed iff some sentence starts with what it would make of the text."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from constrained.batch_masks import fill_masks
from constrained.errors import EmptyLanguage, TokenRejected
from constrained.matcher import Matcher
from constrained.vocabulary import Vocabulary
from grammars import Choice, JsonSchema, Regex
from tests.constrained.languages import (
    Language,
    Writer,
    bits,
    byte_vocabulary,
    constraint_on,
    empty_row,
    fresh_constraint,
    json_languages,
    languages,
    mask,
    vocabularies,
)

PATIENT = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
QUICK = settings(PATIENT, max_examples=50)


def drawn(data: st.DataObject) -> tuple[Language, Vocabulary]:
    language = data.draw(languages())
    vocabulary = data.draw(vocabularies(language))
    note(f"{language.grammar!r}\n{len(language.sentences)} sentences\ntokens {vocabulary.tokens!r}")
    return language, vocabulary


def snapshot(matcher: Matcher) -> tuple[object, ...]:
    return matcher.text, matcher.tokens, matcher.configuration(), matcher.is_finished(), matcher.is_accepting()


def byte_tokens(vocabulary: Vocabulary) -> dict[int, int]:
    """For each byte, the first token that is just it."""
    singles: dict[int, int] = {}
    for token, data in enumerate(vocabulary.tokens):
        if data is not None and len(data) == 1:
            singles.setdefault(data[0], token)
    return singles


@PATIENT
@given(st.data())
def test_at_every_prefix_the_mask_is_its_definition(data: st.DataObject) -> None:
    language, vocabulary = drawn(data)
    matcher = fresh_constraint(language.grammar, vocabulary).matcher()
    singles = byte_tokens(vocabulary)
    for prefix in sorted(language.prefixes):
        kept = len(matcher.text)
        while kept and matcher.text != prefix[:kept]:
            matcher.rollback(1)
            kept -= 1
        for byte in prefix[kept:]:
            matcher.accept(singles[byte])
        assert matcher.text == prefix
        assert mask(matcher) == language.allowed(prefix, vocabulary), prefix
        assert matcher.is_accepting() == (prefix in language.sentences), prefix
        assert len(matcher.shortest_completion()) == language.shortest_completion(prefix), prefix
        assert prefix + matcher.shortest_completion() in language.sentences


@PATIENT
@given(st.data())
def test_accepting_agrees_with_the_mask_and_a_refusal_changes_nothing(data: st.DataObject) -> None:
    language, vocabulary = drawn(data)
    matcher = fresh_constraint(language.grammar, vocabulary).matcher()
    fill_first = data.draw(st.booleans())
    for _ in range(8):
        expected = language.allowed(matcher.text, vocabulary)
        if fill_first:
            assert mask(matcher) == expected
        before = snapshot(matcher)
        for token in range(-2, vocabulary.size + 2):
            if token in expected:
                matcher.accept(token)
                assert matcher.tokens == (*before[1], token)
                assert matcher.is_finished() == (token in vocabulary.eos_token_ids)
                if matcher.is_finished():
                    assert mask(matcher) == set()
                    assert matcher.shortest_completion() == b""
                else:
                    assert mask(matcher) == language.allowed(matcher.text, vocabulary)
                matcher.rollback(1)
            else:
                with pytest.raises(TokenRejected) as caught:
                    matcher.accept(token)
                assert caught.value.token_id == token
            assert snapshot(matcher) == before
        matcher.accept(data.draw(st.sampled_from(sorted(expected))))
        if matcher.is_finished():
            with pytest.raises(TokenRejected, match="finished"):
                matcher.accept(0)
            break


@PATIENT
@given(st.data())
def test_moving_about_gives_what_starting_over_gives(data: st.DataObject) -> None:
    language, vocabulary = drawn(data)
    constraint = fresh_constraint(language.grammar, vocabulary)
    matcher = constraint.matcher()
    others: list[tuple[Matcher, tuple[int, ...]]] = []
    for _ in range(data.draw(st.integers(3, 14))):
        move = data.draw(st.sampled_from(["accept", "accept", "accept", "rollback", "fork", "reset", "swap", "many"]))
        committed = matcher.tokens
        if move == "accept" and not matcher.is_finished():
            matcher.accept(data.draw(st.sampled_from(sorted(language.allowed(matcher.text, vocabulary)))))
        elif move == "rollback":
            count = data.draw(st.integers(0, len(committed)))
            matcher.rollback(count)
            assert matcher.tokens == committed[: len(committed) - count]
            with pytest.raises(ValueError, match="back"):
                matcher.rollback(len(matcher.tokens) + 1)
        elif move == "reset":
            matcher.reset()
            assert matcher.tokens == ()
        elif move == "many":
            tokens = data.draw(st.lists(st.integers(0, vocabulary.size - 1), max_size=5))
            twin = constraint.matcher()
            assert twin.accept_many(committed) == len(committed)
            legal = 0
            for token in tokens:
                if twin.is_finished() or token not in language.allowed(twin.text, vocabulary):
                    break
                twin.accept(token)
                legal += 1
            assert matcher.accept_many(tokens) == legal
        elif others:
            at = data.draw(st.integers(0, len(others) - 1))
            others.append((matcher, matcher.tokens))
            matcher, expected = others.pop(at)
            assert matcher.tokens == expected
        if move == "fork":
            others.append((matcher.fork(), matcher.tokens))
        for one in (matcher, *(other for other, _ in others)):
            twin = fresh_constraint(language.grammar, vocabulary).matcher()
            for token in one.tokens:
                twin.accept(token)
            assert twin.text == one.text
            assert twin.is_finished() == one.is_finished()
            assert mask(twin) == mask(one)


@QUICK
@given(st.data())
def test_masks_ahead_are_the_masks_that_stepping_gives(data: st.DataObject) -> None:
    language, vocabulary = drawn(data)
    matcher = fresh_constraint(language.grammar, vocabulary).matcher()
    stepping = matcher.fork()
    tokens: list[int] = []
    for _ in range(data.draw(st.integers(0, 6))):
        allowed = sorted(language.allowed(stepping.text, vocabulary)) if not stepping.is_finished() else []
        token = data.draw(st.sampled_from(allowed) if allowed else st.integers(0, vocabulary.size - 1))
        if data.draw(st.integers(0, 9)) == 0:
            token = data.draw(st.integers(0, vocabulary.size - 1))
        tokens.append(token)
        stepping.accept_many([token])
    start = data.draw(st.integers(0, len(tokens)))
    start = matcher.accept_many(tokens[:start])
    before = snapshot(matcher)
    rows = np.full((len(tokens) - start + 1, vocabulary.row_words), 0xFFFFFFFF, dtype=np.uint32)
    matcher.masks_ahead(tokens[start:], rows)
    assert snapshot(matcher) == before
    refused = False
    for row, token in zip(rows, [*tokens[start:], None], strict=True):
        assert bits(row) == (set() if refused else mask(matcher))
        refused = refused or (token is not None and matcher.accept_many([token]) == 0)


@QUICK
@given(st.data())
def test_what_a_store_did_before_does_not_show(data: st.DataObject) -> None:
    language, vocabulary = drawn(data)
    others = data.draw(st.lists(languages(), max_size=3))
    first = fresh_constraint(language.grammar, vocabulary)
    constraints = [constraint_on(first.store, other.grammar, vocabulary) for other in others]
    singles = byte_tokens(vocabulary)
    for constraint, other in zip(constraints, others, strict=True):
        for sentence in sorted(other.sentences)[:5]:
            matcher = constraint.matcher()
            for byte in sentence:
                assert mask(matcher) == other.allowed(matcher.text, vocabulary)
                if byte not in singles:
                    break
                matcher.accept(singles[byte])
    shuffled = data.draw(st.permutations(sorted(language.prefixes)[:80]))
    for prefix in shuffled:
        matcher = first.matcher()
        for byte in prefix:
            matcher.accept(singles[byte])
        assert mask(matcher) == language.allowed(prefix, vocabulary)


@QUICK
@given(st.data())
def test_a_batch_of_masks_is_the_masks_one_by_one(data: st.DataObject) -> None:
    language, vocabulary = drawn(data)
    constraint = fresh_constraint(language.grammar, vocabulary)
    singles = byte_tokens(vocabulary)
    matchers = []
    for prefix in data.draw(st.lists(st.sampled_from(sorted(language.prefixes)), max_size=4)):
        matchers.append(constraint.matcher())
        matchers[-1].accept_many(singles[byte] for byte in prefix)
    rows = np.full((len(matchers), vocabulary.row_words), 0xFFFFFFFF, dtype=np.uint32)
    fill_masks(matchers, rows)
    assert [bits(row) for row in rows] == [language.allowed(one.text, vocabulary) for one in matchers]


@PATIENT
@given(json_languages())
def test_the_twin_enumerates_what_a_validator_accepts_and_emptiness_is_refused(language: Language) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(language.grammar.text))
    for sentence in language.sentences:
        assert validator.is_valid(json.loads(sentence))
    if not language.sentences:
        with pytest.raises(EmptyLanguage):
            fresh_constraint(language.grammar, byte_vocabulary())


NESTED = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}]}
CHAINED = {
    "type": "object", "additionalProperties": False, "required": ["b"],
    "properties": {"a": {"$ref": "#"}, "b": {"enum": ["x", "xy"]}},
}  # fmt: skip
OVERLAPPING = {
    "anyOf": [
        {"type": "null"},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 1, "maxItems": 1},
        {"type": "array", "prefixItems": [{"type": "null"}, {"$ref": "#"}], "items": False, "minItems": 2},
    ]
}


@pytest.mark.parametrize("schema", [NESTED, CHAINED, OVERLAPPING])
@pytest.mark.parametrize("order", ["schema", "any"])
def test_recursion_keeps_masks_exact_as_deep_as_can_be_enumerated(schema: dict[str, object], order: str) -> None:
    depth = 2
    texts = Writer(order == "any", canonical=True, most=1000).texts(schema, schema, depth)
    grammar = JsonSchema(schema, whitespace="compact", property_order=order)
    language = Language(grammar, frozenset(text.encode() for text in texts))
    tokens = [bytes([byte]) for byte in b'[]{},:"abxynul'] + [
        b"[[", b"]]", b"],[", b"null,", b",null", b"l]", b"l,[", b"[nu", b'{"', b'":', b'":{"', b'"}', b'"}}', b'x"',
        b'y"},"b', b'","b":"', b'x"},"b":"x', b'{"a":{"', b"null", b'"}}}', b"]]]",
    ]  # fmt: skip
    vocabulary = Vocabulary.from_token_bytes([*tokens, None], eos_token_ids=[len(tokens)])
    matcher = fresh_constraint(grammar, vocabulary).matcher()

    def deep(prefix: bytes) -> bool:
        nested = level = 0
        for byte in prefix:
            level += (byte in b"[{") - (byte in b"]}")
            nested = max(nested, level)
        return nested > depth

    singles = byte_tokens(vocabulary)
    for prefix in sorted(language.prefixes):
        if deep(prefix):
            continue
        matcher.reset()
        assert matcher.accept_many(singles[byte] for byte in prefix) == len(prefix)
        near = {i for i, data in enumerate(vocabulary.tokens) if data is None or not deep(prefix + data)}
        assert mask(matcher) & near == language.allowed(prefix, vocabulary) & near, prefix


def test_padded_logits_have_zero_tails() -> None:
    vocabulary = Vocabulary.from_token_bytes([b"a", b"b", None], eos_token_ids=[2], logits_size=100)
    matcher = fresh_constraint(Regex("[ab]+"), vocabulary).matcher()
    assert mask(matcher) == {0, 1}
    matcher.accept(1)
    assert mask(matcher) == {0, 1, 2}


def test_an_end_token_may_lie_in_the_padding() -> None:
    vocabulary = Vocabulary.from_token_bytes([b"a"], eos_token_ids=[70], logits_size=80)
    matcher = fresh_constraint(Regex("a"), vocabulary).matcher()
    matcher.accept(0)
    assert mask(matcher) == {70}
    matcher.accept(70)
    assert matcher.is_finished()


def test_tokens_cross_terminal_boundaries() -> None:
    vocabulary = Vocabulary.from_token_bytes([b'[{"k":"v', b'"},{"', b'k":"', b'v"}]', b'"}]', None], eos_token_ids=[5])
    schema = {
        "type": "array",
        "items": {
            "type": "object", "properties": {"k": {"enum": ["v"]}}, "required": ["k"], "additionalProperties": False
        },
    }  # fmt: skip
    matcher = fresh_constraint(JsonSchema(schema, whitespace="compact"), vocabulary).matcher()
    for token, expected in ((0, {0}), (1, {1, 4}), (2, {2}), (3, {3})):
        assert mask(matcher) == expected
        matcher.accept(token)
    assert mask(matcher) == {5}


def test_a_token_may_end_inside_a_utf8_character() -> None:
    vocabulary = Vocabulary.from_token_bytes([b'"', b'"\xf0\x9f', b"\x98", b'\x80"', b"\x81", b"\x98\x80", None], [6])
    matcher = fresh_constraint(JsonSchema({"const": "\U0001f600"}, escapes="canonical"), vocabulary).matcher()
    for token, expected in ((1, {0, 1}), (2, {2, 5}), (3, {3})):
        assert mask(matcher) == expected
        matcher.accept(token)
    assert matcher.text.decode() == '"\U0001f600"'
    assert mask(matcher) == {6}


def test_bytes_that_are_no_utf8_never_stand_in_a_string() -> None:
    vocabulary = byte_vocabulary()
    constraint = fresh_constraint(JsonSchema({"type": "string"}), vocabulary)

    def can_follow(text: bytes) -> bool:
        matcher = constraint.matcher()
        matcher.accept(0x22)
        return matcher.accept_many(text) == len(text)

    for lead in range(0x80, 0x100):
        for second in range(256):
            pair = bytes([lead, second])
            try:
                pair.decode()
                expected = True
            except UnicodeDecodeError as error:
                expected = error.reason == "unexpected end of data"
            assert can_follow(pair) == expected, pair


def test_lone_surrogates_cannot_be_escaped() -> None:
    constraint = fresh_constraint(JsonSchema({"type": "string"}), byte_vocabulary())

    def can_follow(text: str) -> bool:
        matcher = constraint.matcher()
        return matcher.accept_many(text.encode()) == len(text)

    assert can_follow('"\\uD83D\\uDe00"')
    assert can_follow('"\\u0000\\uffff\\/"')
    assert not can_follow('"\\ud83d"')
    assert not can_follow('"\\ud83d\\u0041')
    assert not can_follow('"\\ude00')
    assert not can_follow('"\\ud83d\\ud83d')


def test_the_empty_text_may_be_the_only_sentence() -> None:
    vocabulary = Vocabulary.from_token_bytes([b"a", b"", None], eos_token_ids=[2])
    matcher = fresh_constraint(Choice([""]), vocabulary).matcher()
    assert matcher.is_accepting()
    assert mask(matcher) == {2}
    assert matcher.shortest_completion() == b""


def test_a_vocabulary_without_text_only_ends() -> None:
    vocabulary = Vocabulary.from_token_bytes([None, None], eos_token_ids=[0])
    assert mask(fresh_constraint(Regex("a?"), vocabulary).matcher()) == {0}
    assert mask(fresh_constraint(Regex("a"), vocabulary).matcher()) == set()


def test_a_row_of_the_wrong_size_is_refused() -> None:
    matcher = fresh_constraint(Regex("a"), byte_vocabulary()).matcher()
    for words in (0, 8, 10):
        with pytest.raises(ValueError, match="row"):
            matcher.fill_mask(np.zeros(words, dtype=np.uint32))
    assert empty_row(byte_vocabulary()).shape == (9,)
