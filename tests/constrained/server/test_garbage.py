"""Python's garbage collector in a server."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from constrained.server import ServerSettings
from constrained.server.garbage import BEHIND_FORGETTING, EVERY, ShortCollections
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
    gc.collect()  # it is passed over once more, and thawed
    gc.collect()
    assert gone[1]() is None
    kept = [Cycle()]
    gc.collect()
    assert not is_looked_at(kept[0])


def test_letting_grammars_go_is_followed_by_thorough_collections(collections: ShortCollections) -> None:
    old = Cycle()
    gone = weakref.ref(old)
    gc.collect()
    forget()
    gc.collect()
    del old  # still used at the first
    assert gone() is not None
    for _ in range(BEHIND_FORGETTING - 1):
        gc.collect()
    assert gone() is None
    kept = [Cycle()]
    gc.collect()
    assert not is_looked_at(kept[0])


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
