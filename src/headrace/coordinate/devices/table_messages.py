"""A table that devices read as messages to retain: one, or several parts if it is too large for that.

Which of the two it is may change with any version, so what is retained of the other way is taken back. A part that is
left of an earlier version with more parts does no harm: whoever puts parts together looks at the version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headrace.model.cloud_messages import PARTS, TABLE
from headrace.model.device_messages import LARGEST_WHOLE, Sent, cloud_topic, split_table, write_sent

NOTHING = b""
"""What takes a retained message back."""


class TableMessages(NamedTuple):
    """Bodies by topic, in the order in which they are to be published."""

    bodies: Mapping[str, bytes]
    is_in_parts: bool


def write_table(project: str, name: str, sent: Sent) -> TableMessages:
    """Raises `WireError` if the table is too large for devices."""
    whole, first = cloud_topic(project, TABLE, name), cloud_topic(project, PARTS, name, "0")
    body = write_sent((sent,))
    if len(body) <= LARGEST_WHOLE:
        return TableMessages({whole: body, first: NOTHING}, is_in_parts=False)
    parts = enumerate(split_table(name, sent))
    bodies = {cloud_topic(project, PARTS, name, str(number)): part for number, part in parts}
    return TableMessages({**bodies, whole: NOTHING}, is_in_parts=True)
