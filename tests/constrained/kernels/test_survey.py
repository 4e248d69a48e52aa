"""The survey of a budget against running every token's bytes."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from constrained.kernels import survey as s
from constrained.kernels import tables as t
from constrained.masks.row_store import RowStore
from constrained.vocabulary import Vocabulary
from tests.constrained.kernels.twins import TINY, Loaded, Spec, specs, vocabularies, walk

EXAMPLES = 40 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 200


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), specs(), vocabularies(), st.integers(0, 30))
def test_a_survey_lists_every_token_over_the_limit(
    data: st.DataObject, spec: Spec, vocabulary: Vocabulary, limit: int
) -> None:
    store = RowStore(vocabulary, TINY)
    loaded, machine = Loaded(spec, store.machine), store.machine
    price = st.integers(0, 9)
    prices = {name: data.draw(price) for name in (*spec.edges, *spec.waits)} | {"done": 0}
    for name in spec.bases:  # which cannot be told from them but by long texts
        base = name
        while base in spec.bases:
            base = spec.bases[base][0]
        prices[name] = prices[base]
    *_, here = walk(data.draw, spec, 5)
    note(f"{spec}\n{vocabulary.tokens}\n{here}")
    cells, cell, top = loaded.cells(here[1])
    cell_costs = np.full(len(cells), 10_000, dtype=np.int32)
    cell_costs[0] = 0
    for depth, (then, _) in enumerate(reversed(here[1]), start=1):
        cell_costs[depth] = cell_costs[depth - 1] + prices[then]
    costs = np.full(TINY.states, -1, dtype=np.int32)
    frames = np.full((machine.horizon + 2, s.FRAME_COLUMNS), -7, dtype=np.int32)
    ids = store.tokens.token_ids
    ranges = np.zeros((len(ids) + 1, s.RANGE_COLUMNS), dtype=np.int32)
    kinds = np.zeros((len(ids) + 1, s.KIND_COLUMNS), dtype=np.int32)
    parted = np.ones(len(store.tokens.nodes), dtype=np.uint8)
    s.note_parted(store.tokens.nodes, store.tokens.bytes, np.empty_like(parted), parted)
    assert not parted.any()
    registers = np.zeros(s.REGISTERS, dtype=np.int64)
    registers[s.V_STATE], registers[s.V_CELL], registers[s.V_TOP] = loaded.state(here[0]), cell, top
    registers[s.V_LIMIT] = limit
    while True:
        status = s.survey(
            machine.states, machine.maps, machine.actions, machine.memo, cells, machine.loops, store.tokens.nodes,
            store.tokens.bytes, store.tokens.below, parted, frames, costs, cell_costs, ranges, kinds, registers,
        )  # fmt: skip
        if status == t.OK:
            break
        missing = int(registers[s.V_DETAIL])
        if status == t.UNKNOWN_COST:
            missing = missing if missing >= 0 else -1 - missing
            assert costs[missing] == -1
            costs[missing] = prices[loaded.name(missing)]
        elif status == t.UNKNOWN_STATE:
            machine.expand(missing)
        else:
            assert status == t.UNKNOWN_POP
            machine.resolve(missing, int(registers[s.V_OUTCOME]))
    needs = {}
    for token, text in enumerate(vocabulary.tokens):
        after = spec.run(here, text) if text else None
        if after is not None:
            needs[token] = prices[after[0]] + sum(prices[then] for then, _ in after[1])
    assert registers[s.V_MOST] == max(needs.values(), default=0)
    ranges = ranges[: registers[s.V_RANGES]]
    found = [(token, kind) for first, last, kind in ranges.tolist() for token in ids[first:last].tolist()]
    assert sorted(token for token, _ in found) == sorted(token for token, need in needs.items() if need > limit)
    for token, kind in found:
        state, base, own, *returns = kinds[kind].tolist()
        after = spec.run(here, vocabulary.tokens[token] or b"")
        assert after is not None
        assert prices[loaded.name(state)] == prices[after[0]]
        if base < 0:  # too many frames of the token's own to be noted
            assert own == s.MOST_OWN
            continue
        frames_of = [(loaded.name(then if then >= 0 else -1 - then), then < 0) for then in returns[:own]]
        assert (*frames_of, *loaded.configuration(state, cells, base)[1]) == after[1]
        assert base < top

    row = np.zeros(vocabulary.row_words, dtype=np.uint32)
    but = data.draw(st.integers(-1, vocabulary.size - 1))
    allowed = np.zeros(len(kinds), dtype=np.uint8)
    s.note_allowed(row, ids, ranges, but, allowed)
    assert not allowed.any()
    row[:] = 0xFFFFFFFF
    s.note_allowed(row, ids, ranges, but, allowed)
    assert set(np.flatnonzero(allowed).tolist()) == {kind for token, kind in found if token != but}
    late = np.array([data.draw(st.booleans()) for _ in range(registers[s.V_KINDS])], dtype=np.uint8)
    s.take_out(row, ids, ranges, but, late)
    left_out = {token for token, kind in found if late[kind] and token != but}
    for token in range(vocabulary.size):
        assert bool(row[token >> 5] >> (token & 31) & 1) == (token not in left_out)
