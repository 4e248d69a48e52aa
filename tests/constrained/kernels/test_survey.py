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
    *_, here = walk(data.draw, spec, 5)
    note(f"{spec}\n{vocabulary.tokens}\n{here}")
    cells, cell, top = loaded.cells(here[1])
    cell_costs = np.full(len(cells), 10_000, dtype=np.int32)
    cell_costs[0] = 0
    for depth, (then, _) in enumerate(reversed(here[1]), start=1):
        cell_costs[depth] = cell_costs[depth - 1] + prices[then]
    costs = np.full(TINY.states, -1, dtype=np.int32)
    frames = np.full((machine.horizon + 2, 3), -7, dtype=np.int32)
    over = np.zeros((len(store.tokens.token_ids) + 1, 3), dtype=np.int32)
    registers = np.zeros(9, dtype=np.int64)
    registers[s.V_STATE], registers[s.V_CELL], registers[s.V_TOP] = loaded.state(here[0]), cell, top
    registers[s.V_LIMIT] = limit
    while True:
        status = s.survey(
            machine.states, machine.maps, machine.actions, machine.memo, cells, store.tokens.trie, store.tokens.token_ids, frames,
            costs, cell_costs, over, registers,
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
    found = over[: registers[s.V_FOUND]].tolist()
    assert sorted(token for token, _, _ in found) == sorted(token for token, need in needs.items() if need > limit)
    for token, state, cell_after in found:
        after = spec.run(here, vocabulary.tokens[token] or b"")
        assert after is not None
        assert loaded.name(state) == after[0]
        if cell_after >= 0:  # the stack is the matcher's own; otherwise there is a frame of the token's on it
            assert loaded.configuration(state, cells, cell_after) == after
        else:
            assert len(after[1]) >= 1
