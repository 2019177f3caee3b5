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
    is_constant = isinstance(written, exp.Literal) and written.is_string
    zone = _read_zone(written.name) if is_constant else None
    if zone is not None and zone.upper() in UTC_NAMES:
        return make_cast(node.this, "TIMESTAMP")
    match find_origin_type(node.this, type_of):
        case OriginType.TIMESTAMPTZ:
            return _convert(node.this, zone, written, "from_utc_timestamp", "time_in_zone")
        case OriginType.TIMESTAMP:
            return _convert(node.this, zone, written, "to_utc_timestamp", "instant_in_zone")
    words = f"'{zone}'" if is_constant else "zone"
    hint = f"say which it is: x::timestamptz AT TIME ZONE {words}, or x::timestamp; or give the type in `columns:`"
    raise NotMaintained("expression: AT TIME ZONE of a column", hint)


def _convert(time: exp.Expr, zone: str | None, written: exp.Expr, constant: str, changing: str) -> exp.Expr:
    """A zone that changes from row to row is read by PostgreSQL's rules, not by Spark's."""
    return make_call(changing, time, written) if zone is None else make_call(constant, time, make_text(zone))


def call_timezone(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """`timezone(zone, x)` is `x AT TIME ZONE zone`."""
    zone, value = take("timezone", arguments, 2)
    return convert_zone(exp.AtTimeZone(this=value, zone=zone), type_of)


def truncate_in_zone(unit: exp.Expr, value: exp.Expr, zone: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`date_trunc(unit, x, zone)`: cut in local time, and an instant again."""
    instant = exp.Cast(this=value, to=exp.DataType.build("timestamptz", dialect="postgres"))
    local = exp.AtTimeZone(this=instant, zone=zone)
    cut = exp.Anonymous(this="date_trunc", expressions=[unit, local])
    return convert_zone(exp.AtTimeZone(this=cut, zone=zone.copy()), type_of)


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
