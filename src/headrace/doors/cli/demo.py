"""`headrace demo`: the sample apps, kept fresh before your eyes."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.doors.cli.options import Json
from headrace.doors.cli.output import Exit, show

if TYPE_CHECKING:
    from headrace.app.demo import Demo
    from headrace.app.running import Server, ServiceHost

DEFAULT_S = 60.0
LOOK_EVERY_S = 1.0
LINE_EVERY_S = 5.0
"""How often lags are told where no terminal shows them."""

For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="How long to run.", show_default="until Ctrl-C; in a pipe 60s"),
]


def demo(for_: For = None, json: Json = False) -> int:
    """Run the sample apps: databases in three regions, load, views that are kept fresh, and a closing audit."""
    seconds = _seconds(for_)
    from headrace.app.demo import open_demo
    from headrace.doors.cli.demo_text import closing_document, closing_text, opening_text

    say = _say_nothing if json else _say_with_time()
    with _signals_as_interrupts(), open_demo(_serve, say) as running:
        running.start()
        if not json:
            print(opening_text(running), flush=True)
        try:
            _watch(running, seconds, json)
        except KeyboardInterrupt:
            say("stopping")
        say("comparing every view with its query on the databases")
        closing = running.finish()
    return show(
        json,
        Exit.DONE if closing.ok else Exit.NO,
        text=lambda: closing_text(closing),
        document=lambda: closing_document(running.plan, closing),
    )


def _serve(host: ServiceHost, token: str, port: int) -> Server:
    """Loads what serves HTTP when Spark is on its way already."""
    from headrace.doors.api.server import serve

    return serve(host, token, port)


def _seconds(text: str | None) -> float | None:
    """None is until someone stops it."""
    from headrace.app.demo import read_duration

    if text is not None:
        return read_duration(text)
    return None if sys.stdout.isatty() else DEFAULT_S


def _watch(running: Demo, seconds: float | None, quiet: bool) -> None:
    """Shows lags until the time is over or someone interrupts."""
    from headrace.doors.cli.demo_text import Screen

    started = time.monotonic()
    screen = Screen(sys.stdout, None if quiet else LINE_EVERY_S)
    while seconds is None or time.monotonic() - started < seconds:
        passed = time.monotonic() - started
        screen.show(passed, running.lags(), running.arrivals(), running.written)
        left = LOOK_EVERY_S if seconds is None else min(LOOK_EVERY_S, seconds - passed)
        time.sleep(max(0.0, left))


def _say_with_time() -> Callable[[str], None]:
    started = time.monotonic()
    return lambda what: print(f"{time.monotonic() - started:3.0f} s  {what}", file=sys.stderr, flush=True)


def _say_nothing(what: str) -> None:
    pass


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
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
