"""Stores that let their rows go again and again give the masks that stores give which never do."""

from __future__ import annotations

import random
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from constrained import JsonSchema, Lark, Limits, Matcher, Regex, Vocabulary, fill_masks
from constrained.compile import Constraint
from constrained.device import BatchRows, TableMirror
from constrained.kernels import handles
from constrained.kernels.ahead import rows_there_and_back
from constrained.masks.row_store import RowStore
from grammars.errors import LimitExceeded
from tests.constrained.languages import SMALL, constraint_on
from tests.constrained.test_threads import GRAMMARS, in_eight_threads, vocabulary

TINY = Limits(states=400_000, stack_depth=200, bytes=1 << 11)
"""Room for a few rows at a time."""
CROSSING = [b'",', b'"]', b"1,", b"2,", b",1", b",2", b',"', b'b",', b"true,", b"1]", b',"a"', b'",2', b"2,1", b'ab"']
WORDS = Vocabulary.from_token_bytes(
    [*vocabulary().tokens[:-1], *CROSSING, None], eos_token_ids=[len(vocabulary().tokens) - 1 + len(CROSSING)]
)
ITEMS = {"enum": [1, 2, "a", "ab", "abc", "b", True, None]}
ALL = [
    *GRAMMARS,
    JsonSchema({"type": "array", "items": ITEMS, "uniqueItems": True}),  # rows whose open tokens depend on the text
    JsonSchema({"type": "array", "items": True, "uniqueItems": True}),
    JsonSchema({"type": "object", "patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "number"}}}),
    Lark('start: "[" [start ("," start)*] "]" | NAME\nNAME: /[a-c]+/'),
]


def constraints(limits: Limits) -> list[Constraint]:
    store = RowStore(WORDS, limits)
    return [constraint_on(store, grammar, WORDS) for grammar in ALL]


def masks_of(constraint: Constraint, seed: int) -> Iterator[bytes]:
    """The masks of a random walk that `seed` determines, with forks, steps back and masks ahead in between."""
    chance = random.Random(seed)
    matcher = constraint.matcher(max_tokens=30 if seed % 3 == 0 else None)
    row = np.empty(WORDS.row_words, dtype=np.uint32)
    for _ in range(25):
        matcher.fill_mask(row)
        yield row.tobytes()
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        if not allowed:
            return
        token = chance.choice(allowed)
        turn = chance.randrange(8)
        if turn == 0:
            ahead = np.empty((2, WORDS.row_words), dtype=np.uint32)
            matcher.masks_ahead([token], ahead)
            yield ahead.tobytes()
        elif turn == 1:
            matcher, kept = matcher.fork(), matcher
            kept.accept(token)
        elif turn == 2 and matcher.tokens:
            matcher.rollback(1)
            continue
        matcher.accept(token)


JOBS = [(index, seed) for index in range(len(ALL)) for seed in range(6)]


@pytest.fixture(scope="module")
def expected() -> dict[tuple[int, int], list[bytes]]:
    alone = constraints(SMALL)
    masks = {job: list(masks_of(alone[job[0]], job[1])) for job in JOBS}
    assert alone[0].store.counters().evictions == 0
    return masks


def test_walks_side_by_side_across_many_evictions_have_the_masks_of_a_store_without(
    expected: dict[tuple[int, int], list[bytes]],
) -> None:
    tiny = constraints(TINY)
    walks = {job: masks_of(tiny[job[0]], job[1]) for job in JOBS}
    seen: dict[tuple[int, int], list[bytes]] = {job: [] for job in JOBS}
    chance = random.Random(1)
    while walks:
        job = chance.choice(list(walks))
        try:
            seen[job].append(next(walks[job]))
        except StopIteration:
            del walks[job]
    assert seen == expected
    assert tiny[0].store.counters().evictions > 100


def test_eight_threads_across_many_evictions_have_the_masks_of_one(
    expected: dict[tuple[int, int], list[bytes]],
) -> None:
    tiny = constraints(TINY)

    def work(number: int) -> None:
        mine = JOBS.copy()
        random.Random(number).shuffle(mine)
        for index, seed in mine[:20]:
            assert list(masks_of(tiny[index], seed)) == expected[index, seed], (index, seed)

    assert in_eight_threads(work) == []
    assert tiny[0].store.counters().evictions > 100


def schemas(count: int) -> list[JsonSchema]:
    """Schemas that share some of their parts."""
    chance = random.Random(7)

    def schema(depth: int) -> dict[str, Any]:
        kind = chance.choice(
            ["string", "integer", "enum", "array", "object", "object"] if depth else ["string", "enum"]
        )
        if kind == "string":
            return {"type": "string", "minLength": chance.randrange(3), "maxLength": chance.randrange(3, 6)}
        if kind == "integer":
            return {"type": "integer", "minimum": chance.randrange(9)}
        if kind == "enum":
            return {"enum": chance.sample(["a", "ab", "abc", 1, 12, True, None], 3)}
        if kind == "array":
            return {"type": "array", "items": schema(depth - 1), "maxItems": chance.randrange(1, 4)}
        names = chance.sample(["a", "ab", "abc", "b", "true"], 2)
        return {"type": "object", "properties": {name: schema(depth - 1) for name in names}, "required": names[:1]}

    return [JsonSchema(schema(2)) for _ in range(count)]


def test_two_hundred_schemas_in_eight_threads_have_the_masks_of_one_thread() -> None:
    made = schemas(200)
    one = RowStore(WORDS, SMALL)
    expected = [list(masks_of(constraint_on(one, schema, WORDS), 1)) for schema in made]
    shared = RowStore(WORDS, TINY)

    def work(number: int) -> None:
        mine = list(range(200))
        random.Random(number).shuffle(mine)
        for index in mine[:60]:
            with shared.machine.lock:
                constraint = constraint_on(shared, made[index], WORDS)
            assert list(masks_of(constraint, 1)) == expected[index], made[index]

    assert in_eight_threads(work) == []
    assert shared.counters().evictions > 100


def test_masks_ahead_with_the_tables_from_before_an_eviction_are_right() -> None:
    store = RowStore(WORDS, SMALL)
    constraint = constraint_on(store, JsonSchema({"type": "string", "maxLength": 3}), WORDS)
    ids = [ord('"'), ord("a"), ord("b")]
    expected = np.empty((4, WORDS.row_words), dtype=np.uint32)
    constraint.matcher().masks_ahead(ids, expected)
    before = store.rows
    store.evict()
    got = np.zeros_like(expected)
    constraint.matcher().masks_ahead(ids, got)
    assert np.array_equal(got, expected)
    matcher, numbers = constraint.matcher(), np.empty(4, dtype=np.int64)
    assert matcher.row_here()[1] >= store.rows.first
    found = rows_there_and_back(  # as if the eviction had come after the tables were looked up
        store.handles, before.handles, store.machine.memo, matcher._own, matcher._registers,
        np.array(ids, dtype=np.int64), numbers, got,
    )  # fmt: skip
    assert found == 0
    matcher.masks_ahead(ids, got)
    assert np.array_equal(got, expected)


def mask(matcher: Matcher) -> NDArray[np.uint32]:
    row = np.empty(WORDS.row_words, dtype=np.uint32)
    matcher.fill_mask(row)
    return row


def test_a_matcher_finds_its_row_again_after_an_eviction() -> None:
    store = RowStore(WORDS, SMALL)
    matcher = constraint_on(store, ALL[1], WORDS).matcher()
    matcher.accept(ord("{"))
    before, first = mask(matcher), matcher.row_here()
    store.evict()
    assert store.rows is not first[0]
    assert store.rows.first > first[1]
    fork = matcher.fork()
    assert np.array_equal(mask(fork), before)
    assert np.array_equal(mask(matcher), before)
    assert matcher.row_here() == fork.row_here()
    assert matcher.row_here()[1] >= store.rows.first
    assert store.counters().misses == 2  # once before and once after; the matcher finds what its fork has made


def test_a_batch_in_which_every_row_evicts_is_masked_as_one_by_one() -> None:
    tiny = constraints(Limits(states=400_000, stack_depth=200, bytes=64))
    matchers = [constraint.matcher() for constraint in tiny]
    rows = np.zeros((len(matchers), WORDS.row_words), dtype=np.uint32)
    fill_masks(matchers, rows)
    alone = [mask(constraint.matcher()) for constraint in constraints(SMALL)]
    assert np.array_equal(rows, np.stack(alone))
    assert tiny[0].store.counters().evictions >= len(matchers) - 1


def test_rows_are_freed_while_matchers_that_found_them_live() -> None:
    store = RowStore(WORDS, SMALL)
    matcher = constraint_on(store, Regex("a*b"), WORDS).matcher()
    mask(matcher)
    gone = weakref.ref(store.rows.pool)
    kept = store.rows.handles
    store.evict()
    assert gone() is not None  # somebody might be reading
    del kept
    assert gone() is None
    assert np.flatnonzero(np.unpackbits(mask(matcher).view(np.uint8), bitorder="little")).tolist() == [97, 98]


def test_rows_on_a_device_stay_right_across_evictions_and_full_tables() -> None:
    limits = Limits(states=400_000, stack_depth=200, bytes=1 << 13)
    tiny = constraints(limits)
    matchers = [constraint.matcher() for constraint in tiny for _ in range(2)]
    cpu, chance = torch.device("cpu"), random.Random(3)
    batches, wanted, tables = [], [], set()
    for _ in range(20):
        masks = [mask(matcher) for matcher in matchers]
        batches.append(BatchRows.of(matchers, masks, cpu))
        wanted.append(np.stack(masks))
        tables.add(id(tiny[0].table))
        assert tiny[0].table.nbytes <= limits.bytes // 4 + WORDS.row_words * 4
        for matcher, row in zip(matchers, masks, strict=True):
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
            if allowed:
                matcher.accept(chance.choice(allowed))
    assert len(tables) > 1
    for batch, rows in zip(batches, wanted, strict=True):  # those made before the evictions, too
        logits = batch.apply_(torch.zeros(len(matchers), WORDS.size))
        allowed = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")[:, : WORDS.size]
        assert np.array_equal((logits == 0).numpy(), allowed == 1)


def test_a_row_number_belongs_to_the_table_it_came_with() -> None:
    tiny = constraints(Limits(states=400_000, stack_depth=200, bytes=256))
    found = []
    for constraint in tiny:
        matcher = constraint.matcher()
        table, number = matcher.table_row()
        found.append((table, number, mask(matcher)))
        assert (constraint.table, matcher.state_row()) == (table, number) or constraint.table is not table
    assert len({id(table) for table, _, _ in found}) > 1
    for table, number, row in found:
        assert np.array_equal(TableMirror.of(table, torch.device("cpu")).rows()[number].numpy().view(np.uint32), row)


def test_a_token_that_was_set_apart_is_in_the_mask_after_an_eviction() -> None:
    store = RowStore(WORDS, SMALL)
    matcher = constraint_on(store, ALL[8], WORDS).matcher()
    for byte in b'["a",':
        matcher.accept(byte)
    before = mask(matcher)
    for _ in range(3):
        store.evict()
        assert np.array_equal(mask(matcher), before)


class Meddling:
    """The kernels of handles, around some of which all rows are let go."""

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self._chance = random.Random(2)

    def _meddle(self) -> None:
        if self._chance.random() < 0.3:
            self._store.evict()

    def __getattr__(self, name: str) -> Any:
        return getattr(handles, name)

    def row_of(self, *arguments: Any) -> int:
        number = int(handles.row_of(*arguments))
        if number >= 0:
            self._store.evict()
        return number

    def write_found(self, *arguments: Any) -> int:
        self._meddle()
        return int(handles.write_found(*arguments))

    def commit_token(self, *arguments: Any) -> int:
        status = int(handles.commit_token(*arguments))
        self._meddle()
        return status


def test_rows_may_go_between_any_two_steps_of_a_matcher(
    monkeypatch: pytest.MonkeyPatch, expected: dict[tuple[int, int], list[bytes]]
) -> None:
    small = constraints(SMALL)
    for module in ("matcher", "batch_masks", "committed"):
        monkeypatch.setattr(f"constrained.{module}.h", Meddling(small[0].store))
    for index, seed in JOBS[::3]:
        assert list(masks_of(small[index], seed)) == expected[index, seed]
    assert small[0].store.counters().evictions > 200


def test_a_row_is_found_by_nobody_before_its_tokens_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    store = RowStore(WORDS, SMALL)
    sort, sorted_rows = store._sort_open, []

    def looked_up_meanwhile(number: int, tokens: list[int], cells: NDArray[np.int32], state: int, *rest: int) -> None:
        sort(number, tokens, cells, state, *rest)
        assert handles.row_of(store.handles, store.machine.memo, cells, state, rest[0]) == -1
        sorted_rows.append((number, cells, state, rest[0]))

    monkeypatch.setattr(store, "_sort_open", looked_up_meanwhile)
    for index in (8, 9):
        for seed in range(4):
            list(masks_of(constraint_on(store, ALL[index], WORDS), seed))
    assert len(sorted_rows) > 3
    assert store.rows.open_tokens


def test_limits_still_hold_where_rows_are_let_go() -> None:
    store = RowStore(WORDS, Limits(states=60, stack_depth=20, bytes=1 << 13))
    matcher = constraint_on(store, Regex("(a|b){0,9}c[0-9]{30}(abc){9}"), WORDS).matcher()
    with pytest.raises(LimitExceeded, match=r"Limits\.states"):
        for byte in b"abababc" + b"0" * 30 + b"abc" * 9:
            mask(matcher)
            matcher.accept(byte)
