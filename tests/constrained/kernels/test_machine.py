"""Steps, commits and the memo against plain Python."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from constrained.automata.machine import Machine
from constrained.kernels import machine as m
from constrained.kernels import tables as t
from tests.constrained.kernels.twins import ALPHABET, START, TINY, Loaded, Spec, specs

EXAMPLES = 60 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 300
PATIENT = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
KEYS = st.one_of(
    st.integers(0, 40),
    st.builds(lambda a, b: (a << 32) | b, st.integers(0, 1 << 29), st.integers(0, 0xFFFFFFFF)),
    st.builds(lambda a, b: t.POP_KEY | (a << t.OUTCOME_BITS) | b, st.integers(0, 1 << 22), st.integers(0, 0xFFFFFF)),
)


@PATIENT
@given(st.dictionaries(KEYS, st.integers(0, 1 << 41), max_size=16), st.lists(KEYS, max_size=20))
def test_the_memo_is_a_dictionary(entries: dict[int, int], asked: list[int]) -> None:
    memo = np.full((32, 2), -1, dtype=np.int64)
    for key, value in entries.items():
        m.memo_insert(memo, key, value)
    larger = np.full((64, 2), -1, dtype=np.int64)
    m.memo_copy(memo, larger)
    for table in (memo, larger):
        for key in [*entries, *asked]:
            assert m.memo_find(table, key) == entries.get(key, -1)
        assert sorted(table[table[:, 0] != -1].tolist()) == sorted([key, value] for key, value in entries.items())


def test_a_memo_grows_with_what_is_put_in() -> None:
    machine = Machine(1, TINY)
    entries = {(number << 32) | (number * 7919): number for number in range(1, 5000)}
    for key, value in entries.items():
        machine.reserve_memo(1)
        m.memo_insert(machine.memo, key, value)
        machine.memo_used += 1
    assert machine.memo.shape[0] >= 2 * len(entries)
    assert all(m.memo_find(machine.memo, key) == value for key, value in entries.items())


class Sequence:
    """The arrays of one matcher, on tight cells and a short history."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.cells, cell, top = loaded.cells(START[1], room=1)
        self.history = np.empty((1, 4), dtype=np.int32)
        self.text = np.empty(2, dtype=np.uint8)
        self.registers = np.zeros(m.REGISTERS, dtype=np.int64)
        self.registers[m.M_DEEPEST] = 1_000
        self.registers[:5] = loaded.state(START[0]), cell, top, 0, -1
        self.asked: list[int] = []

    def commit(self, data: bytes) -> bool:
        """Commit a token, supplying what the kernel asks for."""
        machine, registers = self.loaded.machine, self.registers
        blob = np.frombuffer(b"##" + data + b"##", dtype=np.uint8)
        while True:
            before = registers[:4].copy(), int(registers[m.M_BYTES])
            status = m.commit(
                machine.states, machine.maps, machine.actions, machine.memo, machine.loops, machine.settled, self.cells,
                self.history, self.text, registers, blob, 2, 2 + len(data),
            )  # fmt: skip
            self.asked.append(status)
            if status == t.OK:
                return True
            assert (registers[:4] == before[0]).all()
            assert registers[m.M_BYTES] == before[1]
            if status == t.REJECTED:
                return False
            if status == t.UNKNOWN_STATE:
                assert machine.states[registers[m.M_DETAIL], t.S_ACTIONS] < 0
                machine.expand(int(registers[m.M_DETAIL]))
            elif status == t.UNKNOWN_POP:
                machine.resolve(int(registers[m.M_DETAIL]), int(registers[m.M_OUTCOME]))
            elif status == t.CELLS_FULL:
                self.cells = np.concatenate([self.cells, np.zeros((1, t.CELL_COLUMNS), dtype=np.int32)])
            else:
                assert status == t.HISTORY_FULL
                self.history = np.concatenate([self.history, np.empty((1, 4), dtype=np.int32)])
                self.text = np.concatenate([self.text, np.empty(len(data), dtype=np.uint8)])


@PATIENT
@given(specs(), st.lists(st.lists(st.sampled_from(ALPHABET), min_size=1, max_size=4).map(bytes), max_size=10))
def test_commits_go_where_the_twin_goes(spec: Spec, tokens: list[bytes]) -> None:
    note(str(spec))
    loaded = Loaded(spec, Machine(4, TINY))
    sequence = Sequence(loaded)
    here, text, past = START, b"", []
    for token in tokens:
        after = spec.run(here, token)
        assert sequence.commit(token) == (after is not None)
        if after is not None:
            past.append((here, len(text)))
            here, text = after, text + token
        registers = sequence.registers
        assert loaded.configuration(registers[m.M_STATE], sequence.cells, registers[m.M_CELL]) == here
        assert sequence.text[: registers[m.M_BYTES]].tobytes() == text
        assert registers[m.M_LENGTH] == len(past)
        assert registers[m.M_ROW] == -1
        for (state, cell, _, written), (configuration, length) in zip(sequence.history, past, strict=False):
            assert loaded.configuration(state, sequence.cells, cell) == configuration
            assert written == length
        assert sequence.cells[registers[m.M_CELL], t.C_DEPTH] == len(here[1])


@PATIENT
@given(specs(), st.lists(st.sampled_from(ALPHABET), max_size=8).map(bytes), st.booleans())
def test_a_run_goes_as_far_as_the_twin_goes(spec: Spec, data: bytes, wants_end: bool) -> None:
    loaded = Loaded(spec, Machine(4, TINY))
    machine = loaded.machine
    cells, cell, top = loaded.cells(START[1])
    position = np.array([loaded.state(START[0]), cell, top, 0, 0, wants_end, 0], dtype=np.int64)
    while True:
        status = m.run(
            machine.states, machine.maps, machine.actions, machine.memo, cells, np.frombuffer(data, np.uint8), position
        )
        if status == t.UNKNOWN_STATE:
            machine.expand(int(position[4]))
        elif status == t.UNKNOWN_POP:
            machine.resolve(int(position[4]), int(position[5]))
        else:
            break
        position[5] = wants_end
    reach = max(end for end in range(len(data) + 1) if spec.run(START, data[:end]) is not None)
    here = spec.run(START, data[:reach])
    assert here is not None
    assert position[3] == reach
    assert loaded.configuration(position[0], cells, position[1]) == here
    if reach < len(data):
        assert status == t.REJECTED
    elif wants_end:
        assert (status == t.ACCEPTED) == (spec.step(here, 256) is True)
        assert status in (t.ACCEPTED, t.REJECTED)
    else:
        assert status == t.OK


@pytest.mark.parametrize("byte", [0, 127, 128, 255])
def test_every_byte_is_a_symbol(byte: int) -> None:
    loaded = Loaded(Spec(edges={"a0": {byte: ("goto", "a1")}, "a1": {}}), Machine(4, TINY))
    sequence = Sequence(loaded)
    assert not sequence.commit(bytes([byte ^ 1]))
    assert sequence.commit(bytes([byte]))
    assert loaded.name(int(sequence.registers[m.M_STATE])) == "a1"
