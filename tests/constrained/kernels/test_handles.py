"""Kernels that take tables by their addresses do what those do that take them one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from constrained.kernels import handles as h
from constrained.kernels import machine as m
from constrained.kernels import tables as t
from constrained.masks.row_store import RowStore
from constrained.vocabulary import Vocabulary
from tests.constrained.kernels.twins import START, TINY, Loaded, Spec, specs, vocabularies


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), specs(), vocabularies())
def test_a_token_is_committed_as_its_bytes_are(data: st.DataObject, spec: Spec, vocabulary: Vocabulary) -> None:
    store = RowStore(vocabulary, TINY)
    machine, loaded = store.machine, Loaded(spec, store.machine)
    one, two = (
        [np.zeros((99, 4), dtype=np.int32), np.empty((9, 4), dtype=np.int32), np.empty(99, dtype=np.uint8)]
        for _ in range(2)
    )
    registers = np.zeros((2, m.REGISTERS), dtype=np.int64)
    own = np.zeros((h.OWN, 3), dtype=np.int64)
    h.hold_own(own, *one, registers[0])
    for mine, (cells, _, _) in zip(registers, (one, two), strict=True):
        h.begin(cells, mine, loaded.state(START[0]), machine.done, 50)
    assert loaded.configuration(int(registers[0, m.M_STATE]), one[0], int(registers[0, m.M_CELL])) == START
    for _ in range(6):
        token = data.draw(st.integers(-2, vocabulary.size + 1))
        text = vocabulary.tokens[token] if 0 <= token < len(vocabulary.tokens) else None
        while True:
            status = h.commit_token(store.handles, machine.memo, own, registers[0], token)
            if text:
                blob = np.frombuffer(text, dtype=np.uint8)
                expected = m.commit(
                    machine.states,
                    machine.maps,
                    machine.actions,
                    machine.memo,
                    machine.loops,
                    machine.settled,
                    *two,
                    registers[1],
                    blob,
                    0,
                    len(text),
                )
                at = [mine[m.M_AT] for mine in registers]
                assert status == expected
                registers[:, m.M_AT] = 0  # counted from the beginning of all bytes in one, of the token's in the other
                assert status in (t.OK, t.HISTORY_FULL, t.OPEN) or at[0] - store.token_bounds[token] == at[1]
            else:
                assert status == t.REJECTED
            assert (registers[0] == registers[1]).all()
            if status == t.UNKNOWN_STATE:
                machine.expand(int(registers[0, m.M_DETAIL]))
            elif status == t.UNKNOWN_POP:
                machine.resolve(int(registers[0, m.M_DETAIL]), int(registers[0, m.M_OUTCOME]))
            else:
                break
        top = int(registers[0, m.M_TOP])
        assert (one[0][:top] == two[0][:top]).all()
        assert (one[2][: registers[0, m.M_BYTES]] == two[2][: registers[0, m.M_BYTES]]).all()


def test_a_stack_that_would_be_too_deep_is_left_as_it_was() -> None:
    spec = Spec(edges={"a0": {0x61: ("push_after", "a0", "a0", False)}})
    vocabulary = Vocabulary.from_token_bytes([b"a", b"aa", b"aaa", None], eos_token_ids=[3])
    store = RowStore(vocabulary, TINY)
    loaded = Loaded(spec, store.machine)
    store.machine.expand(loaded.state("a0"))
    cells, history, text = (
        np.zeros((20, 4), dtype=np.int32),
        np.empty((9, 4), dtype=np.int32),
        np.empty(9, dtype=np.uint8),
    )
    own, registers = np.zeros((h.OWN, 3), dtype=np.int64), np.zeros(m.REGISTERS, dtype=np.int64)
    h.hold_own(own, cells, history, text, registers)
    h.begin(cells, registers, loaded.state("a0"), store.machine.done, 4)
    wanted = [(1, t.OK, 3), (1, t.TOO_DEEP, 3), (2, t.TOO_DEEP, 3), (0, t.OK, 4), (0, t.TOO_DEEP, 4)]
    for token, expected, depth in wanted:
        before = registers.copy()
        assert h.commit_token(store.handles, store.machine.memo, own, registers, token) == expected
        assert cells[registers[m.M_CELL], t.C_DEPTH] == depth
        assert expected == t.OK or (registers == before).all()
