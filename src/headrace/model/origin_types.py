"""Types that PostgreSQL tells apart where we have one: both its timestamps are TIMESTAMP, and many others are text.

A column that says which it is (`columns:` in the project file, or the database) can be read as PostgreSQL reads it, in
queries of its dialect. What is stored, sent and computed is a value of our type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class OriginType(StrEnum):
    """PostgreSQL's name for a type that ours does not tell."""

    TEXT = "text"
    JSON = "json"
    JSONB = "jsonb"
    UUID = "uuid"
    INTERVAL = "interval"
    TIME = "time"
    TIMETZ = "timetz"
    TIMESTAMP = "timestamp without time zone"
    TIMESTAMPTZ = "timestamp with time zone"


@dataclass(frozen=True, slots=True)
class Enumeration:
    """A type of PostgreSQL's with these values, in their order. We hold their texts."""

    labels: tuple[str, ...]

    def __str__(self) -> str:
        return "an enum"


ColumnOrigin = OriginType | Enumeration
"""What PostgreSQL calls the type of a column, where ours does not tell."""

_NAMES = {
    **{one.value: one for one in OriginType},
    "varchar": OriginType.TEXT,
    "character varying": OriginType.TEXT,
    "timestamptz": OriginType.TIMESTAMPTZ,
    "timestamp_ltz": OriginType.TIMESTAMPTZ,
    "timestamp_ntz": OriginType.TIMESTAMP,
    "time without time zone": OriginType.TIME,
    "time with time zone": OriginType.TIMETZ,
}
_SIZE = re.compile(r" ?\( ?\d+ ?\)")
_FIELDS = re.compile(r"interval (year|month|day|hour|minute|second).*")


def origin_type_named(text: str) -> OriginType | None:
    """The type that a name says; None for names that say no more than our types do, as `string` and `timestamp`."""
    name = _SIZE.sub("", " ".join(text.casefold().split())).strip()
    return OriginType.INTERVAL if _FIELDS.fullmatch(name) else _NAMES.get(name)
