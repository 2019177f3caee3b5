"""AT TIME ZONE of PostgreSQL: it makes a timestamptz the local time of a zone, and a local time the instant.

We have one type for both, so the expression has to say which it is, or the source of its column. A zone is a region by
its name: an offset counts westward in PostgreSQL, against what nearly everyone means by it, and abbreviations depend on
its configuration.
"""

from __future__ import annotations

import re
import zoneinfo

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_nodes import TypeOf, make_call, make_cast, make_text, take
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.meaning.scalar_format import find_zone
from headrace.meaning.scalar_postgres import UTC_NAMES
from headrace.model.origin_types import OriginType

_ZONES = {zone.casefold(): zone for zone in zoneinfo.available_timezones()}
"""Names of regions as they are written, by what PostgreSQL compares."""


def convert_zone(node: exp.AtTimeZone, type_of: TypeOf) -> exp.Expr:
    written = node.args["zone"].unnest()
    zone = _read_constant(written)
    if zone is not None and zone.upper() in UTC_NAMES:
        return make_cast(node.this, "TIMESTAMP")
    match find_origin_type(node.this, type_of):
        case OriginType.TIMESTAMPTZ if zone is not None:
            return make_call("from_utc_timestamp", node.this, make_text(zone))
        case OriginType.TIMESTAMPTZ:
            return make_call("time_in_zone", node.this, written)
        case OriginType.TIMESTAMP if zone is not None and zone.startswith("Etc/"):
            return make_call("to_utc_timestamp", node.this, make_text(zone))
        case OriginType.TIMESTAMP:
            return make_call("instant_in_zone", node.this, written)
    words = "zone" if zone is None else f"'{zone}'"
    hint = f"say which it is: x::timestamptz AT TIME ZONE {words}, or x::timestamp; or give the type in `columns:`"
    raise NotMaintained("expression: AT TIME ZONE of a column", hint)


def _read_constant(zone: exp.Expr) -> str | None:
    """The name of a zone; None of one that changes from row to row, which is read by PostgreSQL's rules."""
    return _read_zone(zone.name) if isinstance(zone, exp.Literal) and zone.is_string else None


def call_timezone(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """`timezone(zone, x)` is `x AT TIME ZONE zone`."""
    zone, value = take("timezone", arguments, 2)
    return convert_zone(exp.AtTimeZone(this=value, zone=zone), type_of)


def truncate_in_zone(unit: str, value: exp.Expr, zone: exp.Expr) -> exp.Expr:
    """`date_trunc(unit, x, zone)`: cut in local time, and an instant again."""
    written = zone.unnest()
    constant = _read_constant(written)
    if constant is not None and constant.upper() in UTC_NAMES:
        return make_call("date_trunc", make_text(unit), value)
    return make_call("cut_in_zone", make_text(unit), value, written)


def _read_zone(zone: str) -> str:
    if zone.upper() in UTC_NAMES:
        return zone
    if "/" in zone:
        zone = _ZONES.get(zone.casefold(), zone)
        if find_zone(zone) is None:
            raise Mistake(f"'{zone}' is not a time zone", "write it like 'Europe/Paris'")
        return zone
    hint = "write a region, like 'Europe/Paris'"
    if re.search(r"[+\-0-9]", zone):
        hint = f"PostgreSQL counts it westward: {hint}, or 'Etc/GMT-2' for two hours east of UTC"
    raise NotMaintained(f"expression: AT TIME ZONE '{zone}'", hint)
