"""The relations behind templates and their devices, by name. No name that people write has a slash.

phones/location            device, seq, at and the stream's columns: what devices sent, which the service writes
phones/my_place            device, position and the view's columns: rows of a view that devices computed and sent
nearby_friends/placement   a, b, at: the pairs that run on a device, and on which; the others run in the cloud
nearby_friends/reported    reporter, a, b, row_id and the view's columns: results that devices reported
nearby_friends/cloud       a, b and the view's columns: results of the pairs that run in the cloud
pairs                      a, b: in a template's program, the pairs that run where the program does
people/rows                rows of a source that decide where pairs run, or that programs on devices read
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.types import BIGINT, STRING, TIMESTAMP, Type

PAIRS = "pairs"

DEVICE, SEQ, AT, REPORTER, ROW_ID = "device", "seq", "at", "reporter", "row_id"
POSITION = "position"
"""Tells the rows apart that a device has of a view: from 0, in an order that says nothing."""

RESERVED: Mapping[str, Type] = {SEQ: BIGINT, AT: TIMESTAMP}
"""What the relation of a stream has beside the device and the stream's own columns."""

REPORTED: Mapping[str, Type] = {ROW_ID: STRING}

SIDES = ("a", "b")
"""The sides of a template, which are also the columns of its pairs."""


def name_stream(devices: str, stream: str) -> str:
    return f"{devices}/{stream}"


def name_placement(template: str) -> str:
    return f"{template}/placement"


def name_reported(template: str) -> str:
    return f"{template}/reported"


def name_cloud(template: str) -> str:
    return f"{template}/cloud"


def read_side(source: str) -> tuple[str, str] | None:
    """The side and the stream of `a.location`, as the view of a template reads it; None for any other name."""
    side, dot, stream = source.partition(".")
    return (side, stream) if dot and side in SIDES else None


def name_rows(source: str) -> str:
    return f"{source}{_ROWS}"


def is_rows(name: str) -> bool:
    """Whether a view or a contract is one of ours, over the rows of a source."""
    return name.endswith(_ROWS)


_ROWS = "/rows"
