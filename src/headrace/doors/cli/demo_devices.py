"""`headrace demo --devices`: phones whose views run where that takes the fewest messages, before your eyes."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.doors.cli.demo_surroundings import say_nothing, say_with_time, serve_http, signals_as_interrupts
from headrace.doors.cli.output import Exit, show

if TYPE_CHECKING:
    from headrace.app.demo_devices import DevicesDemo
    from headrace.doors.cli.demo_devices_text import DevicesScreen

LOOK_EVERY_S, LINE_EVERY_S = 1.0, 5.0
UNPLUG_AT, PLUG_IN_AT = 0.6, 0.8
"""Parts of the time."""
USUAL_S = 240.0
"""What parts are of, if nobody says how long."""


def run_devices_demo(for_: str | None, tracks: Path | None, json: bool) -> int:
    from headrace.app.demo import read_duration
    from headrace.app.demo_devices import open_devices_demo
    from headrace.doors.cli.demo_devices_text import DevicesScreen, closing_document, closing_text, opening_text

    say = say_nothing if json else say_with_time()
    usual_s = None if sys.stdout.isatty() else USUAL_S
    seconds = usual_s if for_ is None else read_duration(for_)
    with signals_as_interrupts(), open_devices_demo(serve_http, say, tracks) as running:
        running.start()
        if not json:
            print(opening_text(running), flush=True)
        try:
            _watch(running, seconds, DevicesScreen(sys.stdout, None if json else LINE_EVERY_S))
        except KeyboardInterrupt:
            say("stopping")
        say("comparing the view with where the phones are")
        closing = running.finish()
    return show(
        json,
        Exit.DONE if closing.ok else Exit.NO,
        text=lambda: closing_text(closing),
        document=lambda: closing_document(closing),
    )


def _watch(running: DevicesDemo, seconds: float | None, screen: DevicesScreen) -> None:
    """Looks until the time is over or someone interrupts; in between, a phone has no connection for a while."""
    started, usual_s = time.monotonic(), seconds or USUAL_S
    unplugged, is_back = "", False
    while seconds is None or time.monotonic() - started < seconds:
        passed = time.monotonic() - started
        if not unplugged and passed >= UNPLUG_AT * usual_s:
            unplugged = running.unplug()
            screen.tell(f"{passed:3.0f} s  the phone of {unplugged} has lost its connection, and goes on walking")
        if unplugged and not is_back and passed >= PLUG_IN_AT * usual_s:
            is_back = True
            running.plug_in(unplugged)
            screen.tell(f"{passed:3.0f} s  the phone of {unplugged} is back")
        screen.show(passed, running.look())
        left = LOOK_EVERY_S if seconds is None else min(LOOK_EVERY_S, seconds - passed)
        time.sleep(max(0.0, left))
    if unplugged and not is_back:
        running.plug_in(unplugged)
