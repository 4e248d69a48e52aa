"""Python's garbage collector in a server."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from constrained import Limits, Vocabulary, compile
from constrained.compile import retired
from constrained.server import ServerSettings
from constrained.server.garbage import EVERY, ShortCollections
from grammars import Regex
from grammars.memory import forget

from .conftest import wait_until_ready


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture
def collections() -> Iterator[ShortCollections]:
    found = ShortCollections()
    yield found
    found.close()


def is_looked_at(value: Any) -> bool:
    return any(one is value for one in gc.get_objects())


def test_what_a_full_collection_leaves_is_passed_over_by_the_next(collections: ShortCollections) -> None:
    kept = [Cycle()]
    assert is_looked_at(kept[0])
    gc.collect()
    assert not is_looked_at(kept[0])
    gc.collect()
    assert not is_looked_at(kept[0])
    assert collections.count == 2
    assert 0 < collections.longest <= collections.seconds


def test_new_garbage_is_found_at_once_and_what_was_frozen_by_a_thorough_collection(
    collections: ShortCollections,
) -> None:
    new, old = Cycle(), Cycle()
    gone = [weakref.ref(new), weakref.ref(old)]
    del new
    gc.collect()
    assert gone[0]() is None
    del old
    for _ in range(EVERY - 2):
        gc.collect()
        assert gone[1]() is not None
    gc.collect()
    assert gone[1]() is None
    kept = [Cycle()]
    gc.collect()
    assert not is_looked_at(kept[0])


def test_letting_grammars_go_is_followed_by_a_thorough_collection(collections: ShortCollections) -> None:
    old = Cycle()
    gone = weakref.ref(old)
    gc.collect()
    del old
    gc.collect()
    assert gone() is not None
    forget()
    gc.collect()
    assert gone() is None


def test_what_requests_still_used_when_it_was_let_go_is_found_when_they_have_ended(
    collections: ShortCollections,
) -> None:
    words = Vocabulary.from_token_bytes([*(bytes([byte]) for byte in range(256)), None], eos_token_ids=[256])
    limits = Limits(states=50_000, stack_depth=50, bytes=100_000)
    used = compile(Regex("[ab]*c"), words, limits)
    store = weakref.ref(used.store)
    number = 0
    while not retired():
        compile(Regex(f"(x{number}|y[a-f]{{9}}z){{1,9}}"), words, limits).matcher().shortest_completion()
        number += 1
    for _ in range(3):
        gc.collect()
    assert retired() == 1
    del used
    gc.collect()
    assert retired() == 0
    assert store() is None


def test_at_the_end_all_is_as_before() -> None:
    before = len(gc.callbacks)
    ShortCollections().close()
    assert len(gc.callbacks) == before
    assert gc.get_freeze_count() == 0
    forget()
    assert gc.get_freeze_count() == 0


def test_a_server_that_is_alone_in_its_process_says_how_long_collections_take(
    serve: Callable[..., TestClient],
) -> None:
    with serve(ServerSettings(short_collections=True)) as client:
        wait_until_ready(client)
        gc.collect()
        assert gc.get_freeze_count()
        text = client.get("/metrics").text
    assert "constrained_collection_seconds_count 1.0" in text
    assert "constrained_longest_collection_seconds" in text
    assert gc.get_freeze_count() == 0
