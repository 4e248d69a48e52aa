"""Objects whose states kernels make, against the same objects followed by Python alone."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained import JsonSchema, LimitExceeded, Limits
from constrained.automata.object_frames import ObjectFrame
from constrained.compile import Constraint
from constrained.kernels import object_tables as o
from constrained.kernels import tables as t
from constrained.masks.row_store import RowStore
from tests.constrained.languages import SMALL, constraint_on
from tests.constrained.masks.test_eviction import WORDS

NAMES = ("a", "ab", "abc", "b", "bc", 'a"', "a\\", "é", "", "cab", "x" * 20)
VALUES: tuple[Any, ...] = (
    {"type": "null"},
    {"type": "boolean"},
    {"const": "a"},
    {"type": "object", "properties": {"a": {}}},
    False,
)
OTHERS: tuple[Any, ...] = (
    {}, {"additionalProperties": False}, {"additionalProperties": {"type": "null"}}, {"patternProperties": {"^b": True}},
    {"patternProperties": {"^a": {"type": "null"}}, "additionalProperties": False}, {"propertyNames": {"maxLength": 2}},
    {"propertyNames": {"pattern": "^(a|b)+$"}, "additionalProperties": {"type": "boolean"}},
)  # fmt: skip
GAPS = ("bounded", "compact", "any", "[ \\t]{0,3}", "( |\\n\\t)?")


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6))
    required = [name for name in names if draw(st.booleans())]
    properties = {name: draw(st.sampled_from(VALUES)) for name in names}
    inner = {"type": "object", "properties": properties, "required": required, **draw(st.sampled_from(OTHERS))}
    outer = {"type": "object", "properties": {"a": inner, "b": {"type": "array", "items": inner}}}
    return draw(st.sampled_from([inner, outer]))


def compiled(schema: dict[str, Any], gap: str) -> Constraint:
    return constraint_on(RowStore(WORDS, SMALL), JsonSchema(schema, whitespace=gap), WORDS)


def mask(matcher: Any) -> list[int]:
    row = np.zeros(WORDS.row_words, dtype=np.uint32)
    matcher.fill_mask(row)
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()  # type: ignore[no-any-return]


@settings(max_examples=60)
@given(schemas(), st.sampled_from(GAPS), st.integers(0, 1 << 30))
def test_masks_are_those_of_the_general_case(schema: dict[str, Any], gap: str, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        try:
            made = compiled(schema, gap)
        except ValueError:  # there is no such object
            return
        patch.setattr(ObjectFrame, "in_order", lambda _self: None)
        general = compiled(schema, gap)
        draw = random.Random(seed)
        for _ in range(3):
            one, other = made.matcher(), general.matcher()
            for _ in range(30):
                allowed = mask(one)
                assert allowed == mask(other), (one.text, schema)
                token = draw.choice(allowed)
                one.accept(token)
                other.accept(token)
                if one.is_finished():
                    json.loads(one.text)
                    break


@settings(max_examples=30)
@given(schemas(), st.sampled_from(GAPS), st.integers(0, 1 << 30))
def test_what_a_state_says_it_stands_for_has_its_transitions(schema: dict[str, Any], gap: str, seed: int) -> None:
    try:
        constraint = compiled(schema, gap)
    except ValueError:
        return
    draw = random.Random(seed)
    for _ in range(2):
        matcher = constraint.matcher()
        for _ in range(25):
            allowed = mask(matcher)
            matcher.accept(draw.choice(allowed))
            if matcher.is_finished():
                break
    machine = constraint.store.machine
    made = np.flatnonzero(machine.objects.origins[: machine.state_count, o.O_KIND])
    seen = set()
    for state in made.tolist():
        kind = int(machine.objects.origins[state, o.O_KIND])
        if machine.states[state, t.S_ACTIONS] < 0:
            continue
        key = machine.key(state)
        if key[0].__name__ == "expand_literal":
            continue
        seen.add(kind)
        twin = machine.state(key)
        assert twin != state
        left, right = machine.transitions(state), machine.transitions(twin)
        for byte in range(256):  # the states that follow may be others with the same keys, so kinds are compared
            here, there = (
                one.actions[one.groups[byte]] >> t.KIND_SHIFT if one.groups[byte] else 0 for one in (left, right)
            )
            assert (here in (0, t.GOTO) and there in (0, t.GOTO) and bool(here) == bool(there)) or here == there, (
                key,
                byte,
            )
        assert left.actions[0] == right.actions[0]


def test_objects_share_the_states_of_the_names_that_they_have_in_common() -> None:
    store = RowStore(WORDS, SMALL)
    many = {name * 3: {"type": "null"} for name in ("ab", "ac", "bb", "bc")}
    for extra in ({}, {"zz": {"type": "null"}}):
        matcher = constraint_on(store, JsonSchema({"type": "object", "properties": {**many, **extra}}), WORDS).matcher()
        before = store.machine.state_count
        for byte in b'{"ab':
            mask(matcher)
            matcher.accept(byte)
        mask(matcher)
        grown = store.machine.state_count - before
    assert grown < 60


def test_names_that_do_not_fit_are_refused_by_name_of_the_limit() -> None:
    store = RowStore(WORDS, Limits(states=400, stack_depth=20, bytes=1 << 20))
    schema = {"type": "object", "properties": {f"property {number}": {} for number in range(200)}}
    with pytest.raises(LimitExceeded, match=r"Limits\.states"):
        mask(constraint_on(store, JsonSchema(schema), WORDS).matcher())


def test_a_full_table_of_names_is_emptied_and_filled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("constrained.automata.object_tables._INTERNED", 1 << 4)
    schema = {
        "type": "object",
        "properties": {f"{first}{second}": {"type": "null"} for first in "abcdefgh" for second in "abc"},
    }
    constraint = compiled(schema, "compact")
    monkeypatch.setattr(ObjectFrame, "in_order", lambda _self: None)
    general = compiled(schema, "compact")
    for text in (b'{"ab":null,"ba":null,"hc":null,"z', b'{"ha":null,"q":0', b'{"cb":null,"cc":null,"f'):
        one, other = constraint.matcher(), general.matcher()
        for byte in text:
            assert mask(one) == mask(other)
            one.accept(byte)
            other.accept(byte)
    assert constraint.store.machine.objects.counts[o.N_INTERNED] <= 8
