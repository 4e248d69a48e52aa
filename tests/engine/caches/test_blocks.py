from __future__ import annotations

import random

import pytest

from engine.caches.blocks import BlockManager, BlockTable, content_key
from engine.errors import CacheError


def test_a_row_holds_as_many_blocks_as_its_length_rounded_up() -> None:
    manager, table = BlockManager(16, 8), BlockTable()
    for length in range(70):
        assert len(table.blocks) == -(-length // 16)
        before = list(table.blocks)
        assert manager.extend(table, length, 1) == []
        assert table.blocks[: len(before)] == before
    manager.truncate(table, 33)
    assert len(table.blocks) == 3 and manager.used == 3
    manager.check([table])


def test_a_shared_last_block_is_copied_once_it_is_written_and_the_others_stay_shared() -> None:
    manager, table = BlockManager(4, 10), BlockTable()
    manager.extend(table, 0, 10)
    fork = manager.fork(table, 10)
    assert fork.blocks == table.blocks and manager.used == 3
    assert [manager.references[block] for block in table.blocks] == [2, 2, 2]
    copies = manager.extend(fork, 10, 1)
    assert copies == [(table.blocks[2], fork.blocks[2])] and fork.blocks[:2] == table.blocks[:2]
    assert manager.extend(table, 10, 1) == []  # alone now
    manager.check([table, fork])
    manager.truncate(fork, 0)
    assert manager.used == 3
    manager.check([table, fork])


def test_a_fork_at_a_full_block_copies_nothing() -> None:
    manager, table = BlockManager(4, 10), BlockTable()
    manager.extend(table, 0, 8)
    fork = manager.fork(table, 8)
    assert manager.extend(fork, 8, 1) == [] and fork.blocks[:2] == table.blocks
    manager.check([table, fork])


def test_too_few_blocks_are_said_before_anything_changes() -> None:
    manager, table = BlockManager(4, 3), BlockTable()
    manager.extend(table, 0, 6)
    fork = manager.fork(table, 6)
    with pytest.raises(CacheError, match="2 blocks are needed and 1 of 3 are free"):
        manager.extend(fork, 6, 3)
    manager.check([table, fork])
    assert fork.blocks == table.blocks


def test_a_prefix_is_found_by_what_it_holds_and_what_came_before() -> None:
    manager, table = BlockManager(4, 10), BlockTable()
    manager.extend(table, 0, 10)
    manager.remember(table, list(range(10)))
    assert manager.reuse([0, 1, 2, 3, 9, 9, 9, 9]).blocks == table.blocks[:1]
    assert manager.reuse([4, 5, 6, 7]).blocks == []
    assert content_key(b"", [4, 5, 6, 7]) != content_key(content_key(b"", [0, 1, 2, 3]), [4, 5, 6, 7])
    manager.references[table.blocks[0]] -= 1
    manager.truncate(table, 0)
    assert manager.available == 10
    again = manager.reuse(list(range(12)))
    assert len(again.blocks) == 2 and manager.used == 2
    manager.check([again])


def test_the_block_that_was_left_longest_ago_is_evicted_first() -> None:
    manager = BlockManager(2, 3)
    for tokens in ([1, 2], [3, 4], [5, 6]):
        table = BlockTable()
        manager.extend(table, 0, 2)
        manager.remember(table, tokens)
        manager.truncate(table, 0)
    fresh = BlockTable()
    manager.extend(fresh, 0, 2)
    found = [bool(manager.reuse(tokens).blocks) for tokens in ([1, 2], [3, 4], [5, 6])]
    assert found == [False, True, True]


def test_a_block_that_is_written_again_loses_its_key() -> None:
    manager, table = BlockManager(4, 4), BlockTable()
    manager.extend(table, 0, 4)
    manager.remember(table, [1, 2, 3, 4])
    manager.truncate(table, 2)
    assert manager.extend(table, 2, 2) == []
    assert manager.reuse([1, 2, 3, 4]).blocks == []
    manager.check([table])


def test_ten_thousand_random_operations_leak_no_block() -> None:
    generator = random.Random(11)
    manager = BlockManager(4, 60)
    rows: list[tuple[BlockTable, list[int]]] = []
    refused = shared = 0
    for _ in range(10_000):
        choice = generator.random()
        if choice < 0.15 or not rows:
            tokens = [generator.randrange(2) for _ in range(generator.randrange(1, 14))]
            table = manager.reuse(tokens)
            held = tokens[: 4 * len(table.blocks)]
            shared += bool(held)
            rows.append((table, held))
        elif choice < 0.65:
            table, tokens = generator.choice(rows)
            fresh = [generator.randrange(2) for _ in range(generator.randrange(1, 7))]
            before = list(table.blocks)
            try:
                copies = manager.extend(table, len(tokens), len(fresh))
            except CacheError:
                refused += 1
                assert table.blocks == before
            else:
                untouched = len(tokens) // 4
                assert table.blocks[:untouched] == before[:untouched] and len(copies) <= 1
                tokens += fresh
        elif choice < 0.75:
            table, tokens = generator.choice(rows)
            rows.append((manager.fork(table, len(tokens)), list(tokens)))
        elif choice < 0.85:
            table, tokens = generator.choice(rows)
            del tokens[generator.randrange(len(tokens) + 1) :]
            manager.truncate(table, len(tokens))
        elif choice < 0.92:
            manager.remember(*generator.choice(rows))
        else:
            table, _ = rows.pop(generator.randrange(len(rows)))
            manager.truncate(table, 0)
        manager.check([table for table, _ in rows])
        assert all(len(table.blocks) == -(-len(tokens) // 4) for table, tokens in rows)
    assert refused > 50 and shared > 50
    for table, _ in rows:
        manager.truncate(table, 0)
    assert manager.available == manager.blocks == 60
