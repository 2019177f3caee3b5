"""A thread that fails ends the service, and says why."""

from __future__ import annotations

import threading

from headrace.site.threads import GuardedThreads


def fail() -> None:
    raise RuntimeError("out of space")


def test_a_thread_that_fails_stops_the_others_and_says_why():
    threads = GuardedThreads(threading.Event())

    def wait() -> None:
        threads.stop.wait(10)

    others = threads.start(wait, "others")
    threads.start(fail, "upkeep").join(10)
    others.join(10)
    assert threads.stop.is_set() and not others.is_alive()
    assert str(threads.failure) == "out of space"


def test_what_failed_first_is_the_reason():
    threads = GuardedThreads(threading.Event())

    def fail_later() -> None:
        threads.stop.wait(10)
        raise RuntimeError("the ledger is closed")

    later = threads.start(fail_later, "audit")
    threads.start(fail, "upkeep").join(10)
    later.join(10)
    assert str(threads.failure) == "out of space"


def test_a_thread_that_ends_stops_nobody():
    threads = GuardedThreads(threading.Event())
    threads.start(lambda: None, "load").join(10)
    assert not threads.stop.is_set() and threads.failure is None
