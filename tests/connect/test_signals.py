"""A process that is asked to end hears it whatever its main thread is doing."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headrace.connect.signals import hold_signals

SCRIPT = """
import os, signal, threading
from headrace.connect.signals import note_signals

stop = threading.Event()
with note_signals(stop):
    with stop._cond:  # as the main thread does while it sets the event, or begins to wait for it
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    print(stop.wait(20), flush=True)
    stop.clear()
    os.kill(os.getpid(), signal.SIGINT)
    print(stop.wait(20), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_signals_are_heard_while_the_main_thread_holds_the_lock_of_the_event() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines() == ["True", "True"], ran.stderr
    assert ran.returncode == -15, "after the block a signal ends the process again"


@pytest.fixture
def default_interrupt() -> Iterator[None]:
    """Python's own handler, whatever handler a test before this one left: Spark's context sets one of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_interrupt")
def test_signals_that_are_held_are_heard_once_afterwards():
    done = []

    def interrupt_twice() -> None:
        with hold_signals():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("default_interrupt")
def test_signals_that_only_repeat_what_is_done_are_never_heard():
    with hold_signals(hear_later=False):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
