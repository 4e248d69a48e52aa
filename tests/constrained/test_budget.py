"""Budgets against enumeration: a sequence under `max_tokens` ends in a sentence, or is refused before it starts."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from constrained import token_search
from constrained.budget import Budget
from constrained.errors import BudgetError, TokenRejected
from constrained.matcher import Matcher
from constrained.vocabulary import Vocabulary
from grammars import Choice, JsonSchema, Regex
from grammars.errors import LimitExceeded
from tests.constrained.languages import Language, bits, byte_vocabulary, fresh_constraint, languages, mask, vocabularies

PATIENT = settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def with_all_bytes(vocabulary: Vocabulary) -> Vocabulary:
    """The vocabulary with a token for every byte."""
    tokens = [*vocabulary.tokens, *(bytes([byte]) for byte in range(256))]
    return Vocabulary.from_token_bytes(tokens, eos_token_ids=vocabulary.eos_token_ids)


def needed_tokens(language: Language, vocabulary: Vocabulary) -> int:
    """What the error says that the language needs."""
    try:
        fresh_constraint(language.grammar, vocabulary).matcher(max_tokens=1)
    except BudgetError as error:
        assert error.needed is not None
        assert error.max_tokens == 1
        return error.needed
    return 1


@PATIENT
@given(st.data())
def test_with_bytes_for_tokens_the_budgeted_mask_is_exact(data: st.DataObject) -> None:
    language = data.draw(languages())
    note(f"{language.grammar!r}")
    vocabulary = byte_vocabulary()
    needed = language.shortest_completion(b"") + 1
    constraint = fresh_constraint(language.grammar, vocabulary)
    if needed > 1:
        with pytest.raises(BudgetError, match=f"at least {needed} tokens") as caught:
            constraint.matcher(max_tokens=needed - 1)
        assert (caught.value.needed, caught.value.max_tokens) == (needed, needed - 1)
    limit = needed + data.draw(st.integers(0, 4))
    matcher = constraint.matcher(max_tokens=limit)
    while not matcher.is_finished():
        left = limit - len(matcher.tokens) - 1
        expected = {
            token for token in language.allowed(matcher.text, vocabulary)
            if token == 256 or language.shortest_completion(matcher.text + bytes([token])) + 1 <= left
        }  # fmt: skip
        if data.draw(st.booleans()):
            assert mask(matcher) == expected
        for token in language.allowed(matcher.text, vocabulary) - expected:
            before = matcher.configuration(), matcher.tokens
            with pytest.raises(TokenRejected):
                matcher.accept(token)
            assert (matcher.configuration(), matcher.tokens) == before
        matcher.accept(data.draw(st.sampled_from(sorted(expected))))
    assert matcher.text in language.sentences
    assert len(matcher.tokens) <= limit


@PATIENT
@given(st.data())
def test_every_walk_ends_in_a_sentence_within_the_budget(data: st.DataObject) -> None:
    language = data.draw(languages())
    vocabulary = data.draw(vocabularies(language))
    if data.draw(st.booleans()):
        vocabulary = with_all_bytes(vocabulary)
    note(f"{language.grammar!r}\n{vocabulary.tokens!r}")
    limit = needed_tokens(language, vocabulary) + data.draw(st.integers(0, 5))
    constraint = fresh_constraint(language.grammar, vocabulary)
    matcher = constraint.matcher(max_tokens=limit)
    while not matcher.is_finished():
        fill_first = data.draw(st.booleans())
        asked = matcher.fork()
        allowed = mask(asked)
        assert allowed, "an empty mask"
        assert allowed <= language.allowed(matcher.text, vocabulary)
        if fill_first:
            assert mask(matcher) == allowed
        for token in language.allowed(matcher.text, vocabulary):
            one = matcher.fork()
            if token in allowed:
                one.accept(token)
                assert one.is_finished() or mask(one)
            else:
                with pytest.raises(TokenRejected):
                    one.accept(token)
                assert one.tokens == matcher.tokens
                assert mask(one) == allowed
        matcher.accept(data.draw(st.sampled_from(sorted(allowed))))
        if data.draw(st.integers(0, 5)) == 0 and not matcher.is_finished():
            # the way back and forth again changes nothing
            last = matcher.tokens[-1]
            here = mask(matcher)
            matcher.rollback(1)
            assert mask(matcher) == allowed
            matcher.accept(last)
            assert mask(matcher) == here
    assert matcher.text in language.sentences
    assert len(matcher.tokens) <= limit


@PATIENT
@given(st.data())
def test_masks_ahead_under_a_budget_are_those_of_stepping(data: st.DataObject) -> None:
    language = data.draw(languages())
    vocabulary = data.draw(vocabularies(language))
    limit = needed_tokens(language, vocabulary) + data.draw(st.integers(0, 3))
    matcher = fresh_constraint(language.grammar, vocabulary).matcher(max_tokens=limit)
    stepping, rows, tokens = matcher.fork(), [], []
    while not stepping.is_finished():
        rows.append(mask(stepping))
        tokens.append(data.draw(st.sampled_from(sorted(rows[-1]))))
        stepping.accept(tokens[-1])
    ahead = np.empty((len(tokens) + 1, vocabulary.row_words), dtype=np.uint32)
    matcher.masks_ahead(tokens, ahead)
    assert [bits(row) for row in ahead] == [*rows, set()]
    assert matcher.tokens == ()
    matcher.reset()
    assert matcher.accept_many(tokens) == len(tokens)


def test_a_budget_below_one_is_refused() -> None:
    constraint = fresh_constraint(Choice([""]), byte_vocabulary())
    for limit in (0, -3):
        with pytest.raises(BudgetError, match="at least 1"):
            constraint.matcher(max_tokens=limit)
    matcher = constraint.matcher(max_tokens=1)
    assert mask(matcher) == {256}


WHOLE_WORDS = Vocabulary.from_token_bytes(
    [*(bytes([byte]) for byte in range(256)), None, b"hello", b'{"a":"', b'"}'], eos_token_ids=[256]
)


@pytest.mark.parametrize(
    ("grammar", "needed", "text"),
    [
        (Choice(["zqx", "hello"]), 2, b"hello"),
        (JsonSchema({"enum": ["zqx", "hello"]}), 4, b'"hello"'),
        (
            JsonSchema(
                {
                    "type": "object",
                    "properties": {"a": {"enum": ["zqx", "hello"]}},
                    "required": ["a"],
                    "additionalProperties": False,
                }
            ),
            4,
            b'{"a":"hello"}',
        ),
    ],
    ids=["choice", "enum", "object"],
)
def test_a_longer_text_of_fewer_tokens_is_found(grammar: Choice | JsonSchema, needed: int, text: bytes) -> None:
    constraint = fresh_constraint(grammar, WHOLE_WORDS)
    with pytest.raises(BudgetError, match=f"at least {needed} tokens") as caught:
        constraint.matcher(max_tokens=needed - 1)
    assert caught.value.needed == needed
    for _ in range(2):
        matcher = constraint.matcher(max_tokens=needed)
        while not matcher.is_finished():
            matcher.accept(min(mask(matcher)))
        assert matcher.text == text
        assert len(matcher.tokens) == needed


def test_the_search_for_fewer_tokens_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_search, "MOST_LOOKED_AT", 2)
    names = [f"p{index}" for index in range(9)]
    schema = {"type": "object", "properties": {name: {"enum": ["zqx", "hello"]} for name in names}, "required": names}
    constraint = fresh_constraint(JsonSchema(schema), WHOLE_WORDS)
    whole = len(constraint.matcher().shortest_completion()) + 1
    with pytest.raises(BudgetError) as caught:
        constraint.matcher(max_tokens=5)
    assert caught.value.needed is not None
    assert 60 < caught.value.needed <= whole


@pytest.mark.parametrize("limit", [0, 3])
def test_a_budget_error_says_what_to_do(limit: int) -> None:
    constraint = fresh_constraint(JsonSchema({"type": "array", "minItems": 4, "items": {}}), byte_vocabulary())
    with pytest.raises(
        BudgetError, match="at least 1$" if limit == 0 else "at least 10 tokens.*raise max_tokens to 10"
    ):
        constraint.matcher(max_tokens=limit)


def run_out(matcher: Matcher, preferred: bytes) -> bytes:
    """Always take the first preferred byte that is allowed."""
    while not matcher.is_finished():
        allowed = mask(matcher)
        matcher.accept(next((byte for byte in preferred if byte in allowed), max(allowed)))
    return matcher.text


def test_endless_nesting_comes_back_in_time() -> None:
    schema = {"type": "array", "items": {"$ref": "#"}}
    constraint = fresh_constraint(JsonSchema(schema, whitespace="compact"), byte_vocabulary())
    for limit in (3, 4, 5, 61, 300):
        matcher = constraint.matcher(max_tokens=limit)
        text = run_out(matcher, b"[")
        depth = (limit - 1) // 2
        assert text == b"[" * depth + b"]" * depth
        again = constraint.matcher(max_tokens=limit)
        assert run_out(again, b"[") == text


def test_the_cells_of_a_stack_never_run_out_under_a_budget() -> None:
    constraint = fresh_constraint(JsonSchema({"type": "array", "items": {"$ref": "#"}}), byte_vocabulary())
    for limit in range(186, 206, 2):
        assert len(run_out(constraint.matcher(max_tokens=limit), b"[")) == 2 * ((limit - 1) // 2)


def test_endless_whitespace_comes_back_in_time() -> None:
    schema = {"type": "array", "items": {"type": "null"}}
    constraint = fresh_constraint(JsonSchema(schema, whitespace="any"), byte_vocabulary())
    assert run_out(constraint.matcher(max_tokens=20), b"\n") == b"[" + b"\n" * 17 + b"]"


def test_a_long_text_is_bounded_too() -> None:
    constraint = fresh_constraint(Regex("a{3,}(bc|d)"), byte_vocabulary())
    assert run_out(constraint.matcher(max_tokens=10), b"ab") == b"a" * 8 + b"d"
    assert run_out(constraint.matcher(max_tokens=10), b"ba") == b"aaabc"
    assert run_out(constraint.matcher(max_tokens=5), b"ab") == b"aaad"
    with pytest.raises(BudgetError, match="5 tokens"):
        constraint.matcher(max_tokens=4)


@pytest.mark.parametrize("limit", [2, 12, 25])
def test_multiples_of_large_numbers_end_within_the_budget(limit: int) -> None:
    schema = {"anyOf": [{"type": "integer", "multipleOf": 123456789}, {"multipleOf": 987654321.5, "maximum": 0}]}
    constraint = fresh_constraint(JsonSchema({"type": "number", **schema}, whitespace="compact"), byte_vocabulary())
    for preferred in (b"1", b"-7", b"53"):
        number = Decimal(run_out(constraint.matcher(max_tokens=limit), preferred).decode())
        assert number % 123456789 == 0 or (number <= 0 and number % Decimal("987654321.5") == 0)
        assert number or limit == 2


@pytest.mark.parametrize(
    "bounds", [{"minProperties": 2}, {"minProperties": 3, "maxProperties": 3}], ids=["at least two", "exactly three"]
)
def test_undeclared_keys_are_counted_exactly_under_a_budget(bounds: dict[str, int]) -> None:
    schema = {"type": "object", "patternProperties": {"^(x|xyyyy|z)$": {"const": None}}, "additionalProperties": False}
    grammar = JsonSchema(schema | bounds, whitespace="compact", escapes="canonical")
    tokens = [*(bytes([byte]) for byte in range(256)), None, b'":null,"x', b'","', b'x":null,"']
    constraint = fresh_constraint(grammar, Vocabulary.from_token_bytes(tokens, eos_token_ids=[256]))
    needed = len(constraint.matcher().shortest_completion()) + 1
    matcher = constraint.matcher(max_tokens=needed)
    while not matcher.is_finished():
        allowed = mask(matcher)
        for token in range(len(tokens)):
            assert (matcher.fork().accept_many([token]) == 1) == (token in allowed), (matcher.text, tokens[token])
        matcher.accept(min(allowed))


_HAS_99 = {"type": "object", "not": {"patternProperties": {"c": {"not": {"type": "string", "pattern": "99"}}}}}
OVERLAPPING = {
    "type": "object",
    "oneOf": [
        {"patternProperties": {"a": _HAS_99}, "not": {"patternProperties": {"a": {"not": _HAS_99}}}},
        {"patternProperties": {"b": {"type": "object"}}, "not": {"patternProperties": {"b": {"not": _HAS_99}}}},
    ],
}
"""Objects of two kinds that overlap, one of them short of a key that is told by a pattern."""
SYLLABLES = Vocabulary.from_token_bytes(
    [
        *(bytes([byte]) for byte in range(256)),
        None,
        b'{"',
        b'":{"',
        b'"}}',
        b'c":"',
        b"99",
        b'","',
        b'"}',
        b'xa":',
        b"b",
    ],
    eos_token_ids=[256],
)


@pytest.mark.parametrize("limit", [12, 14])
def test_near_a_budget_a_commit_takes_what_the_mask_allowed_and_nothing_else(limit: int) -> None:
    constraint = fresh_constraint(JsonSchema(OVERLAPPING), SYLLABLES)
    rng = np.random.default_rng(limit)
    matcher = constraint.matcher(max_tokens=limit)
    while not matcher.is_finished():
        asked = matcher.fork()
        allowed = mask(asked)
        for token in range(SYLLABLES.size):
            assert (asked.fork().accept_many([token]) == 1) == (token in allowed), (matcher.text, token)
        matcher.accept(int(rng.choice(sorted(allowed))))
    assert len(matcher.tokens) <= limit


def test_what_a_mask_allowed_is_taken_whatever_searches_find_later(monkeypatch: pytest.MonkeyPatch) -> None:
    constraint = fresh_constraint(JsonSchema({"type": "array", "items": {"enum": [1, "hello"]}}), WHOLE_WORDS)
    matcher = constraint.matcher(max_tokens=6)
    matcher.accept(ord("["))
    allowed = mask(matcher)

    def given_up(*_: object, **__: object) -> None:
        raise LimitExceeded("nothing is found any more")

    for search in ("text", "tokens", "fewer_tokens", "tokens_at_most", "cost"):
        monkeypatch.setattr(constraint.completions, search, given_up)
    for token in range(WHOLE_WORDS.size):
        assert (matcher.fork().accept_many([token]) == 1) == (token in allowed), token


def test_where_no_way_to_the_end_is_found_there_is_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    constraint = fresh_constraint(Regex("[ac]{3}b{3}"), byte_vocabulary())
    matcher = constraint.matcher(max_tokens=8)
    matcher.accept(ord("c"))
    too_long = (0,) * 9
    for search in ("tokens", "fewer_tokens"):
        monkeypatch.setattr(constraint.completions, search, lambda *_: too_long)
    monkeypatch.setattr(constraint.completions, "tokens_at_most", lambda *_: len(too_long))
    constraint.completions.costs[:] = len(too_long)
    with pytest.raises(LimitExceeded, match="max_tokens=8 is found; raise max_tokens"):
        mask(matcher)
    with pytest.raises(LimitExceeded, match="max_tokens=8 is found; raise max_tokens"):
        matcher.accept(ord("a"))
    assert matcher.text == b"c"


def test_tokens_that_it_takes_too_long_to_follow_are_left_out_near_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_long(matcher: Matcher, token: int) -> None:
        raise LimitExceeded("the grammar takes too many steps to be worked out")

    monkeypatch.setattr(Matcher, "configuration_after", too_long)
    grammar = JsonSchema({"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 3})
    for seed in range(5):
        rng = np.random.default_rng(seed)
        matcher = fresh_constraint(grammar, byte_vocabulary()).matcher(max_tokens=20)
        while not matcher.is_finished():
            matcher.accept(int(rng.choice(sorted(mask(matcher)))))


def test_the_last_token_is_that_of_the_end_and_nobody_is_asked_about_others(
    default_vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = fresh_constraint(Regex("[a-z ]*"), default_vocabulary).matcher(max_tokens=4)
    row = np.zeros(default_vocabulary.row_words, dtype=np.uint32)
    for _ in range(3):
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        matcher.accept(int(next(token for token in allowed if token not in default_vocabulary.eos_token_ids)))
    monkeypatch.setattr(Budget, "_survey", None)
    matcher.fill_mask(row)
    allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
    assert set(allowed.tolist()) == set(default_vocabulary.eos_token_ids)
    with pytest.raises(TokenRejected):
        matcher.accept(min(default_vocabulary.eos_token_ids) + 100)
    matcher.accept(min(default_vocabulary.eos_token_ids))
    assert matcher.is_finished()


def test_tokens_that_end_inside_a_character_need_its_rest() -> None:
    texts = [bytes([byte]) for byte in range(256)]
    texts += [" раб".encode()[:size] for size in range(2, 8)] + ["x€".encode()[:size] for size in (2, 3, 4)]
    vocabulary = Vocabulary.from_token_bytes([*texts, None], eos_token_ids=[len(texts)])
    constraint = fresh_constraint(JsonSchema({"type": "string"}, whitespace="compact"), vocabulary)
    for left in range(2, 7):
        matcher = constraint.matcher(max_tokens=left + 1)
        matcher.accept(ord('"'))
        allowed = mask(matcher)
        for token, text in enumerate(texts[128:], start=128):
            whole = text.decode(errors="ignore").encode()
            lead = text[len(whole) :]
            if not lead:
                missing = 0
            elif 0xC2 <= lead[0] < 0xF5:
                missing = (2 if lead[0] < 0xE0 else 3 if lead[0] < 0xF0 else 4) - len(lead)
            else:
                assert token not in allowed
                continue
            assert (token in allowed) == (1 + missing + 2 <= left), (text, left)
