"""Runs the demo: sample apps with databases, load and service, on this machine only, and removed afterwards."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.app.project import sample_project
from headrace.coordinate.demo import GUEST_VIEW, INSERT, Arrival, Closing, Demo, Lag, PromiseResult
from headrace.declare.units import DURATION, Unreadable, read_amount
from headrace.model.errors import UsageError

__all__ = [
    "GUEST_VIEW",
    "INSERT",
    "Arrival",
    "Closing",
    "Demo",
    "Lag",
    "PromiseResult",
    "open_demo",
    "read_duration",
]


def read_duration(text: str) -> float:
    """Seconds, of `60s` or `2 min`."""
    try:
        return read_amount(text, DURATION)
    except Unreadable as error:
        raise UsageError(error.message, error.hint) from error


@contextmanager
def open_demo(say: Callable[[str], None]) -> Iterator[Demo]:
    """`say` is told what goes on. Everything that was started has ended afterwards, whatever happens within."""
    folder = sample_project("apps")
    if folder is None:
        raise UsageError("the sample apps are not installed", "`headrace init DIR` writes a project to start from")
    demo = Demo(folder, say)
    try:
        yield demo
    finally:
        with _ignore_interrupts():
            demo.close()


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """Ignores further interrupts while things end: one more would leave half of them behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
