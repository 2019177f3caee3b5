"""What a project declares otherwise than before: prices, capacities, links, statistics, how sources are watched.

Contracts and views are compared by what is planned for them (`difference.py`). Statistics that come from databases
change all the time: a project that says nothing of them has not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from headrace.model import amounts
from headrace.model.catalogue import Catalogue, Headroom, Link, OperatorTime, Site, Source, Stays
from headrace.model.difference import ValueChange
from headrace.model.feed_names import feed_of, name_decisions

Value = tuple[object, str]
"""A value, and how people read it."""

NOTHING: Value = None, "nothing"


def find_changed_values(old: Catalogue, new: Catalogue) -> tuple[ValueChange, ...]:
    """Values that differ, in the order of the new project."""
    before, after = dict(_list_declared(old)), dict(_list_declared(new))
    found = []
    for what in (*after, *(what for what in before if what not in after)):
        was, is_ = before.get(what, {}), after.get(what, {})
        for name in (*is_, *(name for name in was if name not in is_)):
            first, second = was.get(name, NOTHING), is_.get(name, NOTHING)
            if first[0] != second[0] and name not in _find_left_out(old, new, what):
                found.append(ValueChange(what, name, first[1], second[1]))
    return tuple(found)


def _find_left_out(old: Catalogue, new: Catalogue, what: str) -> frozenset[str]:
    """Fields of a source that are no declarations of a value: what databases say, and columns that come or go, which
    make the source one of another shape.
    """
    kind, _, name = what.partition(" ")
    if kind != "source" or name not in old.sources or name not in new.sources:
        return frozenset()
    before, after = old.sources[name], new.sources[name]
    others = {column.name for column in before.columns or ()} ^ {column.name for column in after.columns or ()}
    statistics = (f"{column}.{field}" for column in others for field in ("width", "distinct"))
    return frozenset((*(frozenset(before.found) & frozenset(after.found)), *statistics))


def _list_declared(catalogue: Catalogue) -> Iterator[tuple[str, Mapping[str, Value]]]:
    """All that is declared, thing by thing, field by field."""
    for host in catalogue.hosts.values():
        yield f"host {host.name}", {"cores": _value(host.cores, amounts.format_number)}
    for site in catalogue.sites.values():
        yield f"site {site.name}", dict(_of_site(site))
    for link in catalogue.links:
        yield f"link {link.src} > {link.dst}", dict(_of_link(link))
    for source in catalogue.sources.values():
        if feed_of(source.name, catalogue.feeds) is None:
            yield f"source {source.name}", dict(_of_source(source))
    for feed in catalogue.feeds:
        yield f"feed {feed}", dict(_of_feed(feed, catalogue))
    shares = (one for one in catalogue.selectivity if not one.measured)
    yield "selectivity", {f"{one.source} where {one.text}": _value(one.share, amounts.format_share) for one in shares}
    yield "operator times", {op: (time, _time(time)) for op, time in catalogue.operator_times.items()}
    yield "headroom", dict(_of_headroom(catalogue.headroom))
    yield "project", {"admission": (catalogue.admission, catalogue.admission.value), **_of_planning(catalogue)}


def _of_planning(catalogue: Catalogue) -> dict[str, Value]:
    wishes = catalogue.planning
    named = {"method": wishes.method, "share": wishes.sharing, "wide_area": wishes.wide_area}
    return {name: (wish, "as usual" if wish is None else wish.value) for name, wish in named.items()}


def _of_site(site: Site) -> Iterator[tuple[str, Value]]:
    yield "cpu", _value(site.cpu_price_h, lambda price: amounts.format_price(price, "core-hour"))
    yield "disk", _value(site.disk_price_gb_month, lambda price: amounts.format_price(price, "GB-month"))
    yield "cores", _value(site.cores, amounts.format_number, "no limit")
    yield "disk_capacity", _value(site.disk_capacity, amounts.format_bytes, "no limit")
    yield "speed", _value(site.speed, amounts.format_number)
    yield "host", (site.host, site.host or "none")


def _of_link(link: Link) -> Iterator[tuple[str, Value]]:
    yield "bandwidth", _value(link.bandwidth, amounts.format_bandwidth, "no limit")
    yield "latency", _value(link.latency_s, amounts.format_seconds)
    yield "price", _value(link.price_gb, lambda price: amounts.format_price(price, "GB"))


def _of_source(source: Source) -> Iterator[tuple[str, Value]]:
    yield "rows", _value(source.rows, amounts.format_rows)
    yield "rate", _value(source.rate, amounts.format_rate)
    yield "static", (source.static, "yes" if source.static else "no")
    yield "parent_first", (source.parent_first, "yes" if source.parent_first else "no")
    yield "watch", (source.has_trigger, "trigger" if source.has_trigger else "looks")
    yield "stays", NOTHING if source.stays is None else (source.stays, _stays(source.stays))
    for column in source.columns or ():
        yield f"{column.name}.width", _value(column.width, amounts.format_bytes)
        yield f"{column.name}.distinct", _value(column.distinct, amounts.format_number)


def _of_feed(feed: str, catalogue: Catalogue) -> Iterator[tuple[str, Value]]:
    """Nobody declares the sources that a feed has of its own: all of them are one value."""
    own = [source for source in catalogue.sources.values() if feed_of(source.name, [feed]) is not None]
    decisions = catalogue.sources.get(name_decisions(feed))
    if decisions is not None and decisions.rows is not None:
        values = tuple((source.name, *(value for _, (value, _) in _of_source(source))) for source in own)
        yield "stored ahead", (values, f"{amounts.format_count(decisions.rows)} pairs")


def _of_headroom(room: Headroom) -> Iterator[tuple[str, Value]]:
    yield "cpu", _value(room.cpu, amounts.format_share)
    yield "link", _value(room.link, amounts.format_share)
    yield "blocking", _value(None if room.measured else room.blocking_s, amounts.format_seconds, "measured")


def _stays(stays: Stays) -> str:
    return ", ".join(stays.sites) + (", aggregates anywhere" if stays.aggregates_anywhere else "")


def _time(time: OperatorTime) -> str:
    return f"{time.fixed:g} s, {time.per_in:g} s a row in, {time.per_out:g} s a row out"


def _value(value: float | None, text: Callable[[float], str], none: str = "nothing") -> Value:
    return value, none if value is None else text(value)
