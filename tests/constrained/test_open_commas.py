"""Undeclared keys: looked at once for each set of keys, and then found without looking."""

from __future__ import annotations

import json
import random
import secrets

import numpy as np
import pytest

from constrained import JsonSchema, Matcher, TokenRejected, committed
from constrained.masks.row_store import RowStore
from tests.constrained.languages import SMALL, constraint_on
from tests.constrained.masks.test_eviction import WORDS

SCHEMAS = [
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "additionalProperties": {"type": "object"}},
    {"type": "object", "maxProperties": 4, "patternProperties": {"^c": {"type": ["integer", "object"]}}},
]
TEXTS = ['{"a": 1, "c": {"x": {}, "c": 2}, "d": {}, ', '{"c": {}, "d": {"a": 0, "b": 1}, "e": {}, ']


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The open states that were settled by looking at the text.

    The multipliers of the table are not drawn anew for each run: one in some thousand has two of these states in one place.
    """
    monkeypatch.setattr(secrets, "randbelow", random.Random(1).randrange)
    found: list[int] = []
    settled = committed.settled

    def noted(machine: object, state: int, *rest: object) -> int:
        found.append(state)
        return settled(machine, state, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(committed, "settled", noted)
    return found


def after(one: Matcher, text: str) -> Matcher:
    for byte in text.encode():
        one.accept(byte)
    return one


def mask(one: Matcher) -> bytes:
    row = np.empty(WORDS.row_words, dtype=np.uint32)
    one.fill_mask(row)
    return row.tobytes()


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
@pytest.mark.parametrize("text", TEXTS)
def test_the_same_keys_with_other_values_are_not_looked_at_again(
    schema: dict[str, object], text: str, looks: list[int]
) -> None:
    one, other = (constraint_on(RowStore(WORDS, SMALL), JsonSchema(schema), WORDS) for _ in range(2))
    first = after(one.matcher(), text)
    assert looks
    looks.clear()
    changed = text.replace("{}", '{"q": {"z": {}}}').replace('": 1', '":27')
    second = after(one.matcher(), changed)
    assert looks == []
    assert second.position()[0] == first.position()[0]
    assert mask(second) == mask(first) == mask(after(other.matcher(), text))


def test_keys_taken_back_do_not_count(looks: list[int]) -> None:
    constraint = constraint_on(RowStore(WORDS, SMALL), JsonSchema({"type": "object"}), WORDS)
    known = after(constraint.matcher(), '{"a":1,"b":2,')
    after(constraint.matcher(), '{"a":1,"c":2,')
    looks.clear()
    one = after(constraint.matcher(), '{"a":1,"b":2,')
    one.rollback(len('"b":2,'))
    after(one, '"c":2,')
    assert looks == []
    with pytest.raises(TokenRejected):
        after(one, '"c"')
    other = after(constraint.matcher(), '{"a":1,"c":2,"b')
    other.accept(ord('"'))
    with pytest.raises(TokenRejected):
        after(known, '"b"')


def test_a_token_that_is_refused_after_the_comma_leaves_nothing_behind(looks: list[int]) -> None:
    constraint = constraint_on(RowStore(WORDS, SMALL), JsonSchema({"type": "object"}), WORDS)
    tokens = {data: token for token, data in enumerate(WORDS.tokens) if data}
    crossing = tokens[b',"a"']
    for text in ('{"a":1', '{"b":1'):
        one = after(constraint.matcher(), text)
        if text == '{"a":1':
            with pytest.raises(TokenRejected):
                one.accept(crossing)
            after(one, ',"b":2,')
        else:
            one.accept(crossing)
            after(one, ":2,")
        with pytest.raises(TokenRejected):
            after(one, '"b"')
