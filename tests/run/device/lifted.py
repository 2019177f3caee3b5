"""Relations as lifting makes them, written by hand: pairs joined with the streams of their devices."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from headrace.model.expr import Call, Column, Expr, Literal, conjunction
from headrace.model.relation import Filter, Join, JoinKind, Output, Projection, Relation, Scan, fields_of
from headrace.model.types import BIGINT, BOOLEAN, DAY_TIME, DOUBLE, STRING, TIMESTAMP, Type

LOCATION: tuple[tuple[str, Type], ...] = (("lat", DOUBLE), ("lng", DOUBLE))
HEAD: tuple[tuple[str, Type], ...] = (("device", BIGINT), ("seq", BIGINT), ("at", TIMESTAMP))


def scan(source: str, alias: str, columns: tuple[tuple[str, Type], ...]) -> Scan:
    return Scan(source, alias, tuple(name for name, _ in columns), tuple(type_ for _, type_ in columns))


def pairs(alias: str = "p", sides: str = "ab") -> Scan:
    return scan("pairs", alias, tuple((side, BIGINT) for side in sides))


def stream(alias: str, columns: tuple[tuple[str, Type], ...] = LOCATION, name: str = "phones/location") -> Scan:
    return scan(name, alias, HEAD + columns)


def column(relation: Relation, name: str) -> Column:
    return next(Column(one.name, one.type) for one in fields_of(relation) if one.name == name)


def equal(left: Expr, right: Expr) -> Call:
    return Call("=", (left, right), BOOLEAN)


def side(letter: str, alias: str, columns: tuple[tuple[str, Type], ...] = LOCATION, name: str = "phones/location",
         one_sided: bool = False) -> Relation:  # fmt: skip
    """`a.location` lifted: pairs with the rows of the device on one side."""
    chosen, rows = pairs(f"p{alias}", "a" if one_sided else "ab"), stream(alias, columns, name)
    on = equal(column(chosen, f"p{alias}.{letter}"), column(rows, f"{alias}.device"))
    return Join(JoinKind.INNER, chosen, rows, on)


def both(on: Expr, left: Relation | None = None, right: Relation | None = None) -> Join:
    """`a.location x JOIN b.location y ON ...` lifted."""
    left, right = left or side("a", "x"), right or side("b", "y")
    same = tuple(equal(column(left, f"px.{one}"), column(right, f"py.{one}")) for one in "ab")
    return Join(JoinKind.INNER, left, right, conjunction((*same, on)))


def double(name: str) -> Column:
    return Column(name, DOUBLE)


def distance() -> Call:
    return Call("distance", tuple(map(double, ("x.lat", "x.lng", "y.lat", "y.lng"))), DOUBLE)


def nearer_than(metres: float) -> Call:
    return Call("<", (distance(), Literal(metres, DOUBLE)), BOOLEAN)


def outputs(relation: Relation, prefix: str, *more: Output, sides: str = "ab") -> Relation:
    ids = tuple(Output(one, column(relation, f"{prefix}.{one}")) for one in sides)
    return Projection(relation, (*ids, *more))


def nearby(metres: float = 100.0) -> Relation:
    """Friends that are near each other, and how far they are apart."""
    joined = both(nearer_than(metres))
    return outputs(joined, "px", Output("metres", distance()), Output("lat", double("x.lat")))


def within(relation: Relation, time: str, interval: dt.timedelta) -> Filter:
    since = Call("-", (Call("now", (), TIMESTAMP), Literal(interval, DAY_TIME)), TIMESTAMP)
    return Filter(relation, Call(">", (column(relation, time), since), BOOLEAN))


def coupons() -> Relation:
    """One side: a device and a table of offers, those not far north of where it is."""
    here = side("a", "x", one_sided=True)
    offers = scan("offers", "o", (("name", STRING), ("lat", DOUBLE)))
    north = Call("<", (Call("-", (column(offers, "o.lat"), double("x.lat")), DOUBLE), Literal(1.0, DOUBLE)), BOOLEAN)
    found = Join(JoinKind.INNER, here, offers, north)
    return outputs(found, "px", Output("offer", column(offers, "o.name")), sides="a")


def with_sides(relation: Join, kind: JoinKind) -> Join:
    return replace(relation, kind=kind)
