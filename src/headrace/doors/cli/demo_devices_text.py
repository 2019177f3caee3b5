"""The text of `headrace demo --devices`: who runs what, who is near whom, and how many messages that takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from headrace.doors.cli.output import table, wrap

if TYPE_CHECKING:
    from headrace.app.demo_devices import DevicesClosing, DevicesDemo, DevicesLook, PhoneLook

NAMED = 4
"""Friends that are named in a line; more are counted."""


def opening_text(running: DevicesDemo) -> str:
    text = (
        f"{len(running.people)} phones tell their location, and {len(running.friends)} pairs of friends want to know"
        f" when they are within 300 m of each other. Their places are {running.places.origin}, many times as fast. Each"
        " pair's view runs in the cloud at first; once rates are known, it runs wherever that takes fewer messages."
    )
    return "\n".join(["", *wrap(text, ""), ""])


class DevicesScreen:
    """The table in place on a terminal, else every so often; nothing at all if `every_s` is None."""

    def __init__(self, stream: TextIO, every_s: float | None) -> None:
        self._stream, self._every_s = stream, every_s
        self._in_place = stream.isatty()
        self._height, self._next = 0, 0.0

    def show(self, passed_s: float, look: DevicesLook) -> None:
        if self._every_s is None:
            return
        if self._in_place:
            self._erase()
            self._write([*look_table(look), "", *look_lines(passed_s, look)], keep=True)
        elif passed_s >= self._next:
            self._next = passed_s + self._every_s
            self._write([*look_lines(passed_s, look)])

    def tell(self, line: str) -> None:
        """Something that happened, above the table."""
        if self._every_s is not None:
            self._erase()
            self._write([line])

    def _write(self, lines: list[str], keep: bool = False) -> None:
        self._stream.write("\n".join(lines) + "\n")
        self._stream.flush()
        self._height = len(lines) if keep else 0

    def _erase(self) -> None:
        if self._height:
            self._stream.write(f"\033[{self._height}A\033[J")
            self._height = 0


def look_table(look: DevicesLook) -> list[str]:
    head = ["phone", "connected", "rows", "runs its views with"]
    rows = [[one.name, "yes" if one.is_here else "NO", str(one.rows), _name_some(one)] for one in look.phones]
    return [line.rstrip() for line in table(rows, indent=0, head=head)]


def _name_some(phone: PhoneLook) -> str:
    named = ", ".join(phone.runs[:NAMED])
    return named + (f" and {len(phone.runs) - NAMED} more" if len(phone.runs) > NAMED else "")


def look_lines(passed_s: float, look: DevicesLook) -> Iterator[str]:
    near = ", ".join(f"{one} and {other} {metres} m" for one, other, metres in look.near) or "nobody"
    yield f"{passed_s:3.0f} s  {look.on_devices} of {look.pairs} pairs run on phones; {_say_messages(look)}"
    yield from wrap(near, "       near: ")


def _say_messages(look: DevicesLook) -> str:
    if look.messages_s is None or look.all_cloud_messages_s is None:
        return "rates are not known yet"
    return f"{look.messages_s:.1f} messages/s instead of {look.all_cloud_messages_s:.1f}"


def closing_text(closing: DevicesClosing) -> str:
    look = closing.look
    equal = "equals" if closing.ok else "does NOT equal"
    lines = [
        "",
        f"ran {closing.seconds:.0f} s along {closing.origin}; phones walked after {closing.started_s:.0f} s",
        "",
        *look_table(look),
        "",
        *wrap(
            f"{closing.rows} rows were made on phones; {look.on_devices} of {look.pairs} pairs run on phones, which"
            f" takes {_say_messages(look)} if all ran in the cloud",
            "",
        ),
        *wrap(
            f"the view {equal} what the last places of all phones say: {closing.near} pairs are near, settled after"
            f" {closing.settled_s:.1f} s",
            "",
        ),
    ]
    for what, rows in (("missing", closing.missing), ("not true", closing.extra)):
        lines += [f"{what}: {row}" for row in rows]
    return "\n".join(lines)


def closing_document(closing: DevicesClosing) -> dict[str, Any]:
    look = closing.look
    return {
        "ok": closing.ok,
        "seconds": closing.seconds,
        "started_s": closing.started_s,
        "places": closing.origin,
        "rows": closing.rows,
        "near": closing.near,
        "missing": [list(row) for row in closing.missing],
        "extra": [list(row) for row in closing.extra],
        "settled_s": closing.settled_s,
        "pairs": look.pairs,
        "on_devices": look.on_devices,
        "messages_s": look.messages_s,
        "all_cloud_messages_s": look.all_cloud_messages_s,
        "phones": [
            {"name": one.name, "connected": one.is_here, "rows": one.rows, "runs": list(one.runs)}
            for one in look.phones
        ],
    }
