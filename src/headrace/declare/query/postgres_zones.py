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
from headrace.model.origin_types import OriginType

_ZONES = {zone.casefold(): zone for zone in zoneinfo.available_timezones()}
"""Names of regions as they are written, by what PostgreSQL compares."""
_UTC = ("UTC", "GMT", "ETC/UTC", "Z")


def convert_zone(node: exp.AtTimeZone, type_of: TypeOf) -> exp.Expr:
    zone = _read_zone(node.args["zone"])
    if zone.upper() in _UTC:
        return make_cast(node.this, "TIMESTAMP")
    match find_origin_type(node.this, type_of):
        case OriginType.TIMESTAMPTZ:
            return make_call("from_utc_timestamp", node.this, make_text(zone))
        case OriginType.TIMESTAMP:
            return make_call("to_utc_timestamp", node.this, make_text(zone))
    hint = f"say which it is: x::timestamptz AT TIME ZONE '{zone}', or x::timestamp; or give the type in `columns:`"
    raise NotMaintained("expression: AT TIME ZONE of a column", hint)


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


def _read_zone(node: exp.Expr) -> str:
    if not (isinstance(node, exp.Literal) and node.is_string):
        hint = "write the zone as a constant, like 'Europe/Paris'"
        raise NotMaintained("expression: AT TIME ZONE of a zone that changes", hint)
    zone = node.name
    if zone.upper() in _UTC:
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
