"""Rows made by walks and `compose` against running every token's bytes."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from constrained.automata.machine import Machine
from constrained.kernels import handles as h
from constrained.kernels import tables as t
from constrained.kernels.machine import M_CELL, M_STATE, M_TOP, REGISTERS, look_up
from constrained.kernels.walk_registers import W_CHAIN, W_LARGE, W_LEAST_WALK, W_LIMIT_DENSE, relaxed
from constrained.masks.row_store import RowStore
from constrained.vocabulary import Vocabulary
from tests.constrained.kernels.twins import START, TINY, Configuration, Loaded, Spec, specs, vocabularies, walk

EXAMPLES = 60 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 300
PATIENT = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])


def found_row(store: RowStore, loaded: Loaded, configuration: Configuration) -> set[int]:
    cells, cell, top = loaded.cells(configuration[1])
    state = loaded.state(configuration[0])
    own = np.zeros((h.OWN, 3), dtype=np.int64)
    h.hold(own, h.O_CELLS, cells)
    registers = np.zeros(REGISTERS, dtype=np.int64)
    registers[[M_STATE, M_CELL, M_TOP]] = state, cell, top
    rows, number = store.find(own, cells, registers)
    assert look_up(store.machine.states, store.machine.memo, cells, state, cell) == number
    row = np.full((store.size + 31) // 32, 0xFFFFFFFF, dtype=np.uint32)
    assert rows.write(number, row)
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


@PATIENT
@given(st.data(), specs(), vocabularies())
def test_a_row_is_what_running_every_token_gives(data: st.DataObject, spec: Spec, vocabulary: Vocabulary) -> None:
    store = RowStore(vocabulary, TINY)
    loaded = Loaded(spec, store.machine)
    store._registers[W_LIMIT_DENSE] = data.draw(st.sampled_from([0, 3, 16]))  # rows of few tokens dense, too
    store._registers[[W_LEAST_WALK, W_LARGE]] = (
        data.draw(st.sampled_from([0, 5])),
        data.draw(st.sampled_from([1, 4, 99])),
    )
    note(f"{spec}\n{vocabulary.tokens}")
    for configuration in walk(data.draw, spec, 8):
        assert found_row(store, loaded, configuration) == spec.allowed(configuration, vocabulary), configuration


@PATIENT
@given(st.data(), specs(), vocabularies())
def test_rows_do_not_depend_on_what_was_asked_before(data: st.DataObject, spec: Spec, vocabulary: Vocabulary) -> None:
    configurations = list(dict.fromkeys([c for _ in range(3) for c in walk(data.draw, spec, 6)]))
    store = RowStore(vocabulary, TINY)
    store._registers[[W_LEAST_WALK, W_LARGE]] = data.draw(st.sampled_from([(0, 1), (0, 4), (4, 1)]))
    loaded = Loaded(spec, store.machine)
    for configuration in data.draw(st.permutations(configurations)) + configurations:
        assert found_row(store, loaded, configuration) == spec.allowed(configuration, vocabulary)
    assert store.counters().misses <= len(configurations)


def string_spec() -> Spec:
    """`s1` rests on `s0`, which rests on `k`: `s0` differs from `k` where `s1` does not differ from `s0`."""
    spec = Spec()
    spec.edges["c0"] = {0x2C: ("push_after", "s1", "c0", False)}
    spec.edges["k"] = {0x61: ("goto", "k"), 0x62: ("goto", "k"), 0x5D: ("pop_after", 1)}
    spec.edges["s0"] = {0x61: ("goto", "s2"), 0x62: ("goto", "k"), 0x5D: ("pop_after", 1)}
    spec.edges["s1"] = {0x61: ("goto", "s2"), 0x5D: ("pop_after", 1)}
    spec.edges["s2"] = {0x61: ("goto", "k"), 0x5D: ("pop_after", 1)}
    spec.bases = {"s1": ("s0", 0), "s0": ("k", 0)}
    return spec


def test_a_row_may_rest_on_a_row_that_rests_on_another() -> None:
    words = [b"a", b"b", b"ab", b"]", b"],", b"a],", b"],a", b"],ab", *(b"a" * n for n in range(2, 60))]
    vocabulary = Vocabulary.from_token_bytes([*words, None], eos_token_ids=[len(words)])
    spec = string_spec()
    store = RowStore(vocabulary, TINY)
    loaded = Loaded(spec, store.machine)
    for state in ("k", "s0", "s1"):
        configuration = (state, (("c0", False), ("done", False)))
        assert found_row(store, loaded, configuration) == spec.allowed(configuration, vocabulary), state


def test_rows_are_filed_under_the_cells_that_were_looked_at_and_no_more() -> None:
    spec = string_spec()
    vocabulary = Vocabulary.from_token_bytes([b"a", b"]", b"],", b"],a", None], eos_token_ids=[4])
    store = RowStore(vocabulary, TINY)
    loaded = Loaded(spec, store.machine)
    for depth in (1, 5, 9):
        found_row(store, loaded, ("s1", (("c0", False), *[("c0", False)] * depth, ("done", False))))
    assert store.counters().misses == 1


def test_keys_of_rows_and_of_pops_are_never_the_same() -> None:
    """The 257th wait state's pop was once found under the key of the second chain node's row."""
    store = RowStore(Vocabulary.from_token_bytes([b"a", b"]", None], eos_token_ids=[2]), TINY)
    registers, machine = store._registers, store.machine
    first_chain = int(registers[W_CHAIN])
    for node in (0, first_chain, first_chain + 1, first_chain + 1_000_000):
        for then in (machine.done, 7, -1 - 5):
            key = (node << 32) | (then & 0xFFFFFFFF)
            assert 0 <= key < t.POP_KEY
    assert TINY.states <= first_chain


def test_relaxing_follows_bases_only_as_far_as_their_slack_reaches() -> None:
    machine = Machine(8, TINY)
    one, two, three = (machine.state((relaxed, number)) for number in range(3))
    machine.rest_on(one, two, 3)
    machine.rest_on(two, three, 5)
    states = machine.states
    assert [relaxed(states, one, height) for height in (0, 3, 4, 9)] == [three, three, one, one]
    assert [relaxed(states, two, height) for height in (5, 6)] == [three, two]


def test_a_step_that_pops_and_pushes_depends_on_what_it_popped() -> None:
    spec = Spec(
        edges={
            "n": {0x61: ("pop_before", 1)},
            "c0": {0x61: ("pop_before", 1)},
            "c1": {0x61: ("push_after", "n", "c0", False), 0x62: ("goto", "c1")},
            "c2": {0x62: ("goto", "c2")},
        }
    )
    vocabulary = Vocabulary.from_token_bytes([b"a", b"ab", b"aa", None], eos_token_ids=[3])
    store = RowStore(vocabulary, TINY)
    loaded = Loaded(spec, store.machine)
    for below in ("c1", "c2", "c1"):
        configuration = ("n", (("c0", False), (below, False), ("done", False)))
        assert found_row(store, loaded, configuration) == spec.allowed(configuration, vocabulary), below


def test_the_start_of_the_text_is_a_configuration_like_any_other() -> None:
    spec = Spec(edges={"a0": {0x61: ("pop_after", 1)}})
    vocabulary = Vocabulary.from_token_bytes([b"a", b"aa", b"b", None], eos_token_ids=[3])
    store = RowStore(vocabulary, TINY)
    loaded = Loaded(spec, store.machine)
    assert found_row(store, loaded, START) == {0}
    assert found_row(store, loaded, ("done", ())) == {3}
