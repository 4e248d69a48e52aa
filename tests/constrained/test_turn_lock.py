"""A lock whose holder sees that others wait for it."""

from __future__ import annotations

from threading import Event, Thread

from constrained.turn_lock import TurnLock


def test_it_may_be_entered_again_and_keeps_others_out() -> None:
    lock, inside, order = TurnLock(), Event(), list[str]()

    def other() -> None:
        inside.set()
        with lock:
            order.append("other")

    with lock, lock:
        thread = Thread(target=other)
        thread.start()
        inside.wait()
        order.append("holder")
    thread.join()
    assert order == ["holder", "other"]


def test_one_who_waits_goes_first_where_the_holder_gives_way() -> None:
    lock, order = TurnLock(), list[str]()

    def other() -> None:
        with lock:
            order.append("other")

    with lock:
        assert not lock.is_wanted
        thread = Thread(target=other)
        thread.start()
        while not lock.is_wanted:
            pass
        with lock:
            assert not lock.is_wanted  # entered twice: somebody further out counts on it
        while not order:
            lock.give_way()
        order.append("holder")
        assert not lock.is_wanted
    thread.join()
    assert order == ["other", "holder"]
