"""`headrace demo`: the sample apps, kept fresh before your eyes."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.doors.cli.demo_surroundings import say_nothing, say_with_time, serve_http, signals_as_interrupts
from headrace.doors.cli.options import Json
from headrace.doors.cli.output import Exit, show

if TYPE_CHECKING:
    from headrace.app.demo import Demo

DEFAULT_S = 60.0
LOOK_EVERY_S = 1.0
LINE_EVERY_S = 5.0
"""How often lags are told where no terminal shows them."""

For = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="How long to run.", show_default="until Ctrl-C; in a pipe 60s"),
]


Devices = Annotated[
    bool, typer.Option("--devices", help="Twenty phones, and a view of friends who are near each other, instead.")
]
Tracks = Annotated[
    Path | None,
    typer.Option(
        "--tracks",
        metavar="FILE",
        help="Parquet with user, ts, lat, lon: where the phones go.",
        show_default="GeoLife if it is beside the checkout, else generated walks",
    ),
]


def demo(for_: For = None, devices: Devices = False, tracks: Tracks = None, json: Json = False) -> int:
    """Run the sample apps: databases in three regions, load, views that are kept fresh, and a closing audit."""
    if devices:
        from headrace.doors.cli.demo_devices import run_devices_demo

        return run_devices_demo(for_, tracks, json)
    seconds = _seconds(for_)
    from headrace.app.demo import open_demo
    from headrace.doors.cli.demo_text import closing_document, closing_text, opening_text

    say = say_nothing if json else say_with_time()
    with signals_as_interrupts(), open_demo(serve_http, say) as running:
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
