"""Machines written out, against the machine itself."""

from __future__ import annotations

import itertools

from grammars.lark.tables import NO_LABEL, Table, written_out
from grammars.regular import EPSILON, NONE, chars, matches

A, B = chars([(0x61, 0x61)]), chars([(0x62, 0x62)])
# The number of a's modulo 4; what is odd has label 0, what is a multiple of 4 has label 1; "lost" leads nowhere.
MOVES = {
    **{one: [(A, (one + 1) % 4), (B, one)] for one in range(4)},
    "lost": [(A, "lost")],
}
MOVES[2] = [(A, 3), (B, "lost")]
LABELS = {0: 1, 1: 0, 3: 0}


def test_a_table_has_the_texts_of_its_machine() -> None:
    table = written_out(MOVES, 0, LABELS)
    for length in range(7):
        for word in itertools.product("ab", repeat=length):
            state: object = 0
            for char in word:
                state = (
                    next((to for one, to in MOVES[state] if matches(one, char)), "none") if state in MOVES else "none"
                )  # type: ignore[index]
            label = LABELS.get(state, NO_LABEL)  # type: ignore[call-overload]
            for number in (0, 1):
                assert matches(table.language(number), "".join(word)) is (label == number), word


def test_states_that_go_on_alike_are_one() -> None:
    both = {"s": [(A, "x"), (B, "y")], "x": [(A, "x")], "y": [(A, "y")]}
    table = written_out(both, "s", {"x": 0, "y": 0})
    assert table == Table(((((((0x61, 0x62),), 1)),), ((((0x61, 0x61),), 1),)), (NO_LABEL, 0))
    assert len(written_out(both, "s", {"x": 0, "y": 1}).moves) == 3


def test_equal_tables_have_the_same_languages() -> None:
    first, second = written_out(MOVES, 0, LABELS), written_out(dict(reversed(MOVES.items())), 0, LABELS)
    assert first is not second
    assert first.language(0) is second.language(0)


def test_lengths_are_known_where_they_are_bounded() -> None:
    table = written_out({0: [(A, 1), (B, 2)], 1: [(A, 2)], 2: []}, 0, {2: 0})
    assert table.language(0).high == 2
    assert table.language(0, 2) is EPSILON
    assert table.language(1) is NONE
    assert written_out(MOVES, 0, LABELS).language(0).high is None
