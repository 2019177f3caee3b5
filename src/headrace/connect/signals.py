"""Signals that ask a process to end: they are noted, and the process ends in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def note_signals(stop: threading.Event) -> Iterator[None]:
    """Inside this block SIGTERM and SIGINT set `stop` instead of ending the process.

    Python runs a handler between any two instructions of the main thread, perhaps while that thread holds the lock
    inside `stop`: a second signal comes while the first one sets it, for example. A handler that set the event itself
    would then wait for its own thread for ever. Ours puts a word in a queue, which needs no lock, and a thread sets
    the event.
    """
    words = SimpleQueue[bool]()
    threading.Thread(target=_set_when_told, args=(words, stop), daemon=True).start()
    before = {number: signal.signal(number, lambda *_: words.put(True)) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        words.put(False)


def _set_when_told(words: SimpleQueue[bool], stop: threading.Event) -> None:
    while words.get():
        stop.set()


@contextmanager
def hold_signals(hear_later: bool = True) -> Iterator[None]:
    """Inside this block signals that ask to end, or that come with a terminal's end, wait.

    What must not be left half done is done here: starting what somebody has to end, and ending it. Afterwards the
    first of the signals is heard, unless it would only repeat what is done already.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    before = {number: signal.signal(number, lambda got, _: heard.append(got)) for number in (*ENDING, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if heard and hear_later:
            signal.raise_signal(heard[0])
