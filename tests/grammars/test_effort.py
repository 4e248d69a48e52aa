"""Bounds on what the searches of a block may cost together."""

from __future__ import annotations

import threading

import pytest

from grammars import JsonSchema, LimitExceeded
from grammars.effort import Timed, bounded, spend
from grammars.json_schema import root_value
from grammars.regex import ecma_search
from grammars.regular import complement, intersect, is_empty


def test_steps_are_counted_together_and_only_within_the_block() -> None:
    spend(1_000_000)
    with pytest.raises(LimitExceeded), bounded(steps=1_000):
        for _ in range(999):
            spend()
        spend()
        spend()
    spend(1_000_000)


def test_exactly_what_is_allowed_may_be_spent() -> None:
    with bounded(steps=1_000):
        spend(600)
        spend(400)
        with pytest.raises(LimitExceeded):
            spend()


def test_an_inner_bound_counts_for_the_outer_one_and_ends_with_it() -> None:
    with bounded(steps=1_000):
        with pytest.raises(LimitExceeded), bounded(steps=300):
            spend(301)
        with bounded(steps=600):
            spend(600)
        spend(400)
        with pytest.raises(LimitExceeded), bounded(steps=10_000):
            spend(1)


def test_time_that_is_up_ends_a_search() -> None:
    with bounded(seconds=0.0), pytest.raises(LimitExceeded, match="more than 0 s"):
        for _ in range(1_000):
            spend()


class Clock:
    """The seconds that the thread has computed, as a test says."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_outer_time_goes_on_in_and_behind_the_blocks_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("grammars.effort.thread_time", clock)
    outer, inner = Timed(3.0, "outer"), Timed(2.0, "inner")
    for around in (outer, bounded(seconds=3.0)):
        clock.now = 0.0
        with pytest.raises(LimitExceeded, match=r"outer|more than 3 s"), around:
            for _ in range(10):
                with inner:
                    spend(1_000)
                    clock.now += 1.0
                    spend(1_000)
        assert clock.now == 4.0


def test_an_inner_time_ends_before_an_outer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("grammars.effort.thread_time", clock)
    with Timed(9.0, "outer"):
        with pytest.raises(LimitExceeded, match="inner"), Timed(2.0, "inner"):
            spend(1_000)
            clock.now = 2.5
            spend(1_000)
        spend(1_000)
        clock.now = 9.5
        with pytest.raises(LimitExceeded, match="outer"):
            spend(1_000)
    spend(1_000)


def test_the_steps_of_a_block_are_bounded_too_unless_they_are_already() -> None:
    block = Timed(9.0, "late", 500, "too many")
    for _ in range(3):
        with block:
            spend(300)
            with Timed(9.0, "late", 10, "inner"):
                spend(200)
            with pytest.raises(LimitExceeded, match="too many"):
                spend(1)
    with bounded(steps=1_000, refusal="outer"):
        with block:
            spend(900)
        with pytest.raises(LimitExceeded, match="outer"):
            spend(101)
    spend(1_000_000)


def test_other_threads_are_not_bounded() -> None:
    errors: list[Exception] = []

    def work() -> None:
        try:
            spend(1_000)
        except LimitExceeded as error:
            errors.append(error)

    with bounded(steps=1):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert not errors


def test_a_search_that_was_ended_goes_on_from_there() -> None:
    hard = intersect(ecma_search("a.{9}$"), ecma_search("b.{7}$"), complement(ecma_search("c.{8}$")))
    with pytest.raises(LimitExceeded), bounded(steps=50):
        is_empty(hard)
    assert not is_empty(hard)


def test_a_schema_that_takes_too_long_says_where() -> None:
    wide = {"oneOf": [{"required": [f"a{n}"], "properties": {f"a{n}": {"minLength": n}}} for n in range(7)]}
    value = root_value(JsonSchema({"properties": {"x": wide}})).alternatives().objects[0].properties[0].value
    with pytest.raises(LimitExceeded) as caught, bounded(steps=100):
        value.alternatives()
    assert caught.value.pointer == "/properties/x"
    assert value.alternatives().objects
