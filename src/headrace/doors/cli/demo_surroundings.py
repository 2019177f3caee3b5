"""What demos need around them: HTTP, lines of progress with their time, and signals that end them cleanly."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.app.running import Server, ServiceHost


def serve_http(host: ServiceHost, token: str, port: int) -> Server:
    """Loads what serves HTTP when Spark is on its way already."""
    from headrace.doors.api.server import serve

    return serve(host, token, port)


def say_with_time() -> Callable[[str], None]:
    started = time.monotonic()
    return lambda what: print(f"{time.monotonic() - started:3.0f} s  {what}", file=sys.stderr, flush=True)


def say_nothing(what: str) -> None:
    pass


@contextmanager
def signals_as_interrupts() -> Iterator[None]:
    """Ends the demo as cleanly as Ctrl-C when the process is ended or the terminal is closed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
