"""Open commas are settled by the set of keys before them, whatever their order, their values, and what was read before."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from constrained.kernels import object_keys as k

NAMES = st.one_of(st.sampled_from(["a", "b", "ab", "ba", "", '"', "\\", ",", "{", "é"]), st.text(max_size=4))
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=6)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n ", "\t:")])


def begun(members: dict[str, object], separators: tuple[str, str]) -> bytes:
    """The text of an object up to and with the comma after its members."""
    return json.dumps(members, ensure_ascii=False, separators=separators)[:-1].encode() + b","


def array(text: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(text, dtype=np.uint8)


def hashes(text: bytes, table: NDArray[np.int64], registers: NDArray[np.int64] | None = None) -> tuple[int, ...]:
    if registers is None:
        registers = np.full(16, -1, dtype=np.int64)
    k.read_keys(array(text), k.brace_from(array(text), 0, len(text)), len(text), table, registers)
    return tuple(registers[k.K_FIRST :].tolist())


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(OBJECTS, OBJECTS, SEPARATORS, SEPARATORS, st.randoms(use_true_random=False))
def test_texts_have_the_same_hashes_where_their_objects_have_the_same_keys(
    one: dict[str, object], other: dict[str, object], here: tuple[str, str], there: tuple[str, str], chance: object
) -> None:
    table = k.settled_table()
    same = hashes(begun(one, here), table) == hashes(begun(other, there), table)
    assert same == (one.keys() == other.keys())
    shuffled = list(one)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert hashes(begun(dict.fromkeys(shuffled), there), table) == hashes(begun(one, here), table)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(OBJECTS, SEPARATORS)
def test_what_was_read_before_is_read_on_from(members: dict[str, object], separators: tuple[str, str]) -> None:
    table, registers = k.settled_table(), np.full(16, -1, dtype=np.int64)
    names = list(members)
    for count in range(1, len(names) + 1):
        text = begun({name: members[name] for name in names[:count]}, separators)
        assert hashes(text, table, registers) == hashes(text, table)


def test_another_object_and_a_shorter_text_are_read_from_their_beginning() -> None:
    table, registers = k.settled_table(), np.full(16, -1, dtype=np.int64)
    for text in (b'{"a":1,"b":2,', b'{"a":1,', b' {"a":1,', b'[0,{"c":[1,{"d":"}"}],'):
        assert hashes(text, table, registers) == hashes(text, table)
    assert hashes(b'[0,{"c":[1,{"d":"}"}],', table) == hashes(b'{"c":0,', table)


def test_a_state_is_found_after_the_keys_that_it_was_kept_for_and_no_others() -> None:
    table = k.settled_table()
    texts = {b'{"a":1,': 11, b'{"a":1,"b":2,': 0, b'{"b":1,': 1 << 28}
    for state in (3, 4):
        for text, target in texts.items():
            k.keep_settled(array(text), table, np.zeros(16, dtype=np.int64), state, target + state)

    def found(text: bytes, state: int) -> int:
        return k.settled_state(array(text), 0, len(text), table, np.full(16, -1, dtype=np.int64), state)

    for state in (3, 4):
        assert found(b'{"a":{"b":"c,"},', state) == 11 + state
        assert found(b'{"b":2,  "a":1,', state) == state
        assert found(b'{"b":2,', state) == (1 << 28) + state
        assert found(b'{"c":2,', state) == k.ABSENT
        assert found(b'{"a":1,"b":2,"c":1,', state) == k.ABSENT
    assert found(b'{"a":1,', 5) == k.ABSENT


def test_an_entry_is_gone_when_another_one_takes_its_place() -> None:
    table = k.settled_table()
    text = array(b'{"a":1,')
    k.keep_settled(text, table, np.zeros(16, dtype=np.int64), 3, 7)
    slot = int(np.flatnonzero(table[: k.SIZE, 0])[0])
    value = table[slot, 1]
    table[slot, 1] = value ^ (1 << 40)  # what a reader sees of a writer that has come half way
    assert k.settled_state(text, 0, len(text), table, np.full(16, -1, dtype=np.int64), 3) == k.ABSENT
