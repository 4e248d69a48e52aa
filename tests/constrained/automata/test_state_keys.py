"""Keys of states are found again in both directions, and those of series keep nothing for the garbage collector to look at."""

from __future__ import annotations

import gc

import pytest

from constrained.automata.state_keys import StateKeys, in_series


def plain(*arguments: object) -> None:
    raise AssertionError("only the name matters here")


@in_series
def listed(*arguments: object) -> None:
    raise AssertionError("only the name matters here")


class Thing:
    __slots__ = ()


A, B = Thing(), Thing()
KEYS = [
    (plain,), (plain, A), (plain, (A,)), (plain, (A, B)),
    (listed, ()), (listed, (A,)), (listed, (B,)), (listed, (A, B)), (listed, (B, A)),
    (listed, True, (A,)), (listed, False, (A,)), (listed, A, (A,)), (listed, A, B, (A, B)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key[0].__name__}-{len(key)}")
def test_a_key_is_found_by_its_state_and_a_state_by_its_key(key: tuple[object, ...]) -> None:
    keys = StateKeys(100)
    for state, other in enumerate(KEYS):
        if other != key:
            keys.add(other, state)
    assert keys.number(key) is None
    keys.add(key, 77)
    assert keys.number(key) == 77
    assert keys.get(77) == key
    assert len(keys) == len(KEYS)


def test_different_keys_never_meet() -> None:
    keys = StateKeys(100)
    for state, key in enumerate(KEYS):
        keys.add(key, state)
    assert [keys.number(key) for key in KEYS] == list(range(len(KEYS)))
    assert [keys.get(state) for state in range(len(KEYS))] == KEYS
    assert keys.get(len(KEYS)) is None


def test_a_state_of_one_thing_leaves_no_tuple_behind() -> None:
    keys = StateKeys(10_000)
    things = [Thing() for _ in range(5_000)]
    keys.add((listed, True, (A,)), 0)
    gc.collect()
    before = len(gc.get_objects())
    for state, thing in enumerate(things, 1):
        keys.add((listed, True, (thing,)), state)
    gc.collect()
    assert len(gc.get_objects()) - before < 100
