"""Names against names: every site, source, view and device group that an entry mentions must exist, and exist once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from headrace.declare.build import OPERATOR_TIMES
from headrace.declare.document import Path
from headrace.declare.engine import AUTHENTICATE_CLUSTER, OPEN_CLUSTER, exposing, is_open_cluster
from headrace.declare.entries import Entries
from headrace.declare.project_file import Coherency, FeedEntry, SourceEntry
from headrace.declare.validate import describe
from headrace.model.catalogue import CopyPlace, Refresh, SourceKind
from headrace.model.copy_places import name_place
from headrace.model.errors import Location, Problem, Severity, nearest_name
from headrace.model.source_clock import name_database

OPERATORS = tuple(OPERATOR_TIMES)


def check_references(entries: Entries, views: Mapping[str, Location]) -> Iterator[Problem]:
    """All mistakes between entries. `views` are the views there are, with their files."""
    yield from _check_sites(entries)
    yield from _check_links(entries)
    for name, source in entries.sources.items():
        yield from _check_source(entries, name, source)
    yield from _check_addresses(entries)
    yield from _check_contracts(entries, views)
    yield from _check_feeds(entries, views)
    yield from _check_devices(entries)
    yield from _check_templates(entries, views)
    yield from _check_tuning(entries)
    yield from _check_engines(entries)
    yield from _check_names_in_sql(entries, views)


def _check_sites(entries: Entries) -> Iterator[Problem]:
    if not entries.written["sites"] and "sites" not in entries.unread:
        where = entries.document.key_at(("sites",))
        yield Problem("the project has no sites", where, "write for example `sites: {us: {}}`")
    for name, site in entries.sites.items():
        if site.host is not None:
            path = ("sites", name, "host")
            yield from _unknown(entries, "host", site.host, path, f"write `hosts: {{{site.host}: {{cores: 2}}}}`")


def _check_links(entries: Entries) -> Iterator[Problem]:
    first: dict[tuple[str, str], int] = {}
    for position, link in entries.links.items():
        path = ("links", position)
        for place, name in _ends(entries, position):
            yield from _unknown(entries, "site", name, place)
        if any(src == dst for src, dst in link.directions()):
            hint = "a link connects two sites; within a site nothing is copied"
            yield Problem(f"{describe(path)} leads from a site to the same site", entries.document.value_at(path), hint)
            continue
        for src, dst in link.directions():
            earlier = first.setdefault((src, dst), position)
            if earlier != position:
                line = entries.document.value_at(("links", earlier)).line
                hint = f"the first is on line {line}; keep one"
                yield Problem(f'link "{src}" to "{dst}" is declared twice', entries.document.value_at(path), hint)
                break


def _ends(entries: Entries, position: int) -> Iterator[tuple[Path, str]]:
    link = entries.links[position]
    for index, name in enumerate(link.between or ()):
        yield ("links", position, "between", index), name
    if link.from_ is not None:
        yield ("links", position, "from"), link.from_
    if link.to is not None:
        yield ("links", position, "to"), link.to


def _check_source(entries: Entries, name: str, source: SourceEntry) -> Iterator[Problem]:
    path = ("sources", name)
    yield from _unknown(entries, "site", source.at, (*path, "at"))
    yield from _check_stays(entries, name, source)
    yield from _check_kind(entries, name, source)
    if source.static and source.rate:
        hint = "remove `static` or the rate"
        yield _problem(entries, (*path, "rate"), f"{describe(path)} never changes, yet has a rate", hint)
    first, *others = [*source.origins(), ""]
    if others[:-1]:
        what = f"{describe(path)} comes from `{first}` and from `{others[0]}`"
        yield _problem(entries, (*path, others[0]), what, "keep one")
    unread = {"columns", *type(source).origin_fields()} & entries.lost[path]
    can_be_asked = any(origin.tells_columns for origin in source.origins().values())
    if not source.columns and not unread and (source.columns is not None or not can_be_asked):
        hint = "declare `columns`, or name the PostgreSQL table that has them"
        yield Problem(f"{describe(path)} has no columns", entries.document.key_at(path), hint)


def _check_stays(entries: Entries, name: str, source: SourceEntry) -> Iterator[Problem]:
    if source.stays is None:
        return
    path: Path = ("sources", name, "stays")
    for index, site in enumerate(source.stays.sites):
        short = (*path, index)
        yield from _unknown(
            entries, "site", site, short if short in entries.document.values else (*path, "sites", index)
        )
    if source.at not in source.stays.sites and source.at in entries.sites:
        what = f'rows of source "{name}" stay at {_list_names(source.stays.sites)}, yet they are at "{source.at}"'
        yield _problem(entries, path, what, f'add "{source.at}" to `stays`')


def _check_kind(entries: Entries, name: str, source: SourceEntry) -> Iterator[Problem]:
    path: Path = ("sources", name)
    lost = entries.lost[path]
    if "kind" in lost:
        return
    if source.kind is SourceKind.TABLE:
        for field in ("time", "retention"):
            if getattr(source, field) is not None:
                what = f'table "{name}" has `{field}`, which only a stream has'
                yield _problem(entries, (*path, field), what, "write `kind: stream`, or remove it")
        return
    if source.time is None and "time" not in lost:
        what = f'stream "{name}" has no time'
        yield Problem(what, entries.document.key_at(path), "name the column of the event's time: `time: ts`")
    if source.rows is not None and source.retention is not None:
        what = f'rows of stream "{name}" is ignored: it is its rate times its retention'
        yield _problem(entries, (*path, "rows"), what, "remove it", Severity.WARNING)


def _check_addresses(entries: Entries) -> Iterator[Problem]:
    """Databases are named after the variables of their addresses, in lower case."""
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for name, source in entries.sources.items():
        for kind, origin in source.origins().items():
            address = (origin.to_origin().address or "").strip()
            other, written = first.setdefault((kind, name_database(address)), (name, address))
            if written != address:
                named = f'sources "{other}" and "{name}" name addresses "{written}" and "{address}"'
                what = f"{named}, which differ in upper and lower case only"
                hint = "Headrace cannot tell these databases apart; rename one of the variables"
                yield _problem(entries, ("sources", name, kind), what, hint)


def _check_contracts(entries: Entries, views: Mapping[str, Location]) -> Iterator[Problem]:
    taken: dict[CopyPlace, str] = {
        source.postgres.to_origin(): f'is source "{name}"'
        for name, source in entries.sources.items()
        if source.postgres
    }
    for name, contract in entries.contracts.items():
        path = ("contracts", name)
        yield from _unknown_view(entries, contract.view, (*path, "view"), views)
        yield from _unknown(entries, "site", contract.at, (*path, "at"))
        if contract.deliver is None:
            continue
        place = contract.deliver.to_place()
        if place in taken:
            what = f"{describe(path)} delivers to {name_place(place)}, which {taken[place]}"
            yield _problem(entries, (*path, "deliver"), what, "give each contract a place of its own")
        taken[place] = f'contract "{name}" delivers to as well'


def _check_feeds(entries: Entries, views: Mapping[str, Location]) -> Iterator[Problem]:
    for name, feed in entries.feeds.items():
        path: Path = ("feeds", name)
        if feed.at is not None:
            yield from _unknown(entries, "site", feed.at, (*path, "at"))
        for part, rows in (("events", feed.events), ("follows", feed.follows)):
            if rows.source is not None:
                yield from _unknown(entries, "source", rows.source, (*path, part, "source"))
            if rows.view is not None:
                yield from _unknown_view(entries, rows.view, (*path, part, "view"), views)
        for percentile in feed.latency:
            if not re.fullmatch(r"mean|p(0*[1-9]\d?|\d{1,2}\.\d*[1-9]\d*)", percentile):
                what = f'latency of feed "{name}" has no percentile "{percentile}"'
                where = entries.document.key_at((*path, "latency", percentile))
                yield Problem(what, where, "write mean, or a percentile such as p95 or p99.9")
        if name in entries.written["contracts"]:
            what = f'feed "{name}" has the name of a contract'
            yield Problem(what, entries.document.key_at(path), "rename one: commands take both by their names")
        yield from _check_pages(entries, name, feed)


def _check_pages(entries: Entries, name: str, feed: FeedEntry) -> Iterator[Problem]:
    """What a page shows must fit together."""
    path: Path = ("feeds", name)
    if feed.diversity is not None and feed.coherency is Coherency.GLOBAL:
        what = f'feed "{name}" has `diversity`, which does not go with `coherency: global`'
        hint = "a diverse page leaves out newer entries, and a global one may not; remove one of the two"
        yield Problem(what, entries.document.key_at((*path, "diversity")), hint)
    if feed.pool is not None and feed.rank is None and "rank" not in entries.lost[path]:
        what = f'feed "{name}" has a `pool`, and no `rank` that would order it'
        yield _problem(entries, (*path, "pool"), what, "write `rank: EXPRESSION`, or remove the pool")
    if feed.pool is not None and feed.pool < feed.limit and "limit" not in entries.lost[path]:
        what = f'the pool of feed "{name}" is smaller than a page, which has {feed.limit} entries'
        yield _problem(entries, (*path, "pool"), what, f"write {feed.limit} or more")
    if feed.per_producer is not None and feed.keep < feed.per_producer:
        what = f'feed "{name}" keeps {feed.keep} events of a producer, and may show {feed.per_producer}'
        yield _problem(entries, (*path, "per_producer"), what, f"write `keep: {feed.per_producer}` or more")


def _check_devices(entries: Entries) -> Iterator[Problem]:
    for name, devices in entries.devices.items():
        path: Path = ("devices", name)
        if name == "cloud":
            what = 'devices cannot be called "cloud": that is where a view runs when not on a device'
            yield Problem(what, entries.document.key_at(path), "choose another name")
        if name in entries.written["feeds"]:
            what = f'devices "{name}" have the name of a feed'
            yield Problem(what, entries.document.key_at(path), "rename one: commands take both by their names")
        yield from _unknown(entries, "source", devices.table, (*path, "table"))
        for stream in devices.streams:
            if stream in entries.written["sources"]:
                what = f'stream "{stream}" of devices "{name}" has the name of a source'
                hint = "rename one: a view on a device reads both by their names"
                yield Problem(what, entries.document.key_at((*path, "streams", stream)), hint)


def _check_templates(entries: Entries, views: Mapping[str, Location]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name, template in entries.templates.items():
        path: Path = ("templates", name)
        yield from _unknown(entries, "source", template.per.table, (*path, "per", "table"))
        yield from _unknown(entries, "devices", template.devices, (*path, "devices"))
        yield from _unknown_view(entries, template.view, (*path, "view"), views)
        other = first.setdefault(template.view, name)
        if other != name:
            what = f'templates "{other}" and "{name}" have the same view "{template.view}"'
            yield _problem(entries, (*path, "view"), what, "give each a view of its own: it is read by its name")
        yield from _check_template_name(entries, name, template.view, views)
    for name, contract in entries.contracts.items():
        if contract.view in first and contract.refresh is not Refresh.INCREMENTAL:
            what = f'contract "{name}" is of the view of template "{first[contract.view]}", which is always maintained'
            yield _problem(entries, ("contracts", name, "refresh"), what, "remove `refresh`")


def _check_template_name(entries: Entries, name: str, view: str, views: Mapping[str, Location]) -> Iterator[Problem]:
    """A template is read by its own name as well as by its view's, and commands take it by its name."""
    where = entries.document.key_at(("templates", name))
    for kind, section in (("feed", "feeds"), ("group of devices", "devices"), ("source", "sources")):
        if name in entries.written[section]:
            yield Problem(f'template "{name}" has the name of a {kind}', where, "rename one")
    if name in views and view in views and name != view:
        what = f'template "{name}" has the name of a view that is not its own'
        yield Problem(what, where, "rename one: the template is read by its name")
    contract = entries.contracts.get(name)
    if contract is not None and contract.view != view:
        what = f'template "{name}" has the name of a contract for another view'
        yield Problem(what, where, "rename one: commands take both by their names")


def _check_tuning(entries: Entries) -> Iterator[Problem]:
    for source in entries.written["selectivity"]:
        if source not in entries.written["sources"]:
            hint = nearest_name(source, entries.written["sources"]) or "a selectivity belongs to a source"
            yield Problem(f'source "{source}" does not exist', entries.document.key_at(("selectivity", source)), hint)
    for operator in entries.written["operator_times"]:
        if operator not in OPERATORS:
            hint = nearest_name(operator, OPERATORS) or f"operators are {', '.join(OPERATORS)}"
            where = entries.document.key_at(("operator_times", operator))
            yield Problem(f'operator "{operator}" does not exist', where, hint)
    headroom = entries.fields.headroom if entries.fields else None
    for field in ("cpu", "link"):
        if headroom is not None and getattr(headroom, field) == 1:
            yield _problem(entries, ("headroom", field), f"headroom.{field} leaves nothing to use", "write less than 1")


def _check_engines(entries: Entries) -> Iterator[Problem]:
    declared = [(("sites", name, "engine"), site.engine) for name, site in entries.sites.items()]
    whole = [] if entries.fields is None else [(("engine",), entries.fields.engine)]
    for path, engine in (*whole, *declared):
        if engine is None:
            continue
        if is_open_cluster(engine.master, engine.properties):
            yield _problem(entries, (*path, "master"), OPEN_CLUSTER, AUTHENTICATE_CLUSTER, Severity.WARNING)
        for name, danger in exposing(engine.properties).items():
            what = f'property "{name}" weakens a default: {danger}'
            yield _problem(
                entries, (*path, "properties", name), what, "remove it unless you mean that", Severity.WARNING
            )


def _check_names_in_sql(entries: Entries, views: Mapping[str, Location]) -> Iterator[Problem]:
    """Sources and views share one namespace, in which SQL does not tell upper from lower case."""
    seen: dict[str, str] = {}
    for source in entries.written["sources"]:
        other = seen.setdefault(source.casefold(), source)
        if other != source:
            what = f'sources "{other}" and "{source}" differ in upper and lower case only'
            yield Problem(what, entries.document.key_at(("sources", source)), "SQL cannot tell them apart; rename one")
    for view, where in views.items():
        other = seen.setdefault(view.casefold(), view)
        if other in entries.written["sources"]:
            yield Problem(f'view "{view}" has the name of a source', where, "rename one: SQL cannot tell them apart")
        elif other != view:
            what = f'views "{other}" and "{view}" differ in upper and lower case only'
            yield Problem(what, where, "SQL cannot tell them apart; rename one")


def _unknown_view(entries: Entries, view: str, path: Path, views: Mapping[str, Location]) -> Iterator[Problem]:
    if view in views or path[2] in entries.lost[path[:2]]:
        return
    hint = nearest_name(view, views) or f"write its query to views/{view}.sql"
    if view in entries.written["sources"]:
        hint = f'"{view}" is a source: write a view over it, `SELECT * FROM {view}`'
    owner = describe(path[:2])
    yield _problem(entries, path, f'{owner} names view "{view}", which does not exist', hint)


def _unknown(entries: Entries, kind: str, name: str, path: Path, hint: str | None = None) -> Iterator[Problem]:
    """A mistake unless an entry of that kind has the name."""
    plural = kind if kind == "devices" else f"{kind}s"
    known = entries.written[plural]
    if name in known or plural in entries.unread or path[2] in entries.lost[path[:2]]:
        return
    listed = f"{plural} are {_list_names(known)}" if known else f"the project has no {plural}"
    owner = describe(path[:2])
    what = f'{owner} names {kind} "{name}", which does not exist'
    yield _problem(entries, path, what, nearest_name(name, known) or hint or listed)


def _problem(entries: Entries, path: Path, what: str, hint: str, severity: Severity = Severity.ERROR) -> Problem:
    return Problem(what, entries.document.value_at(path), hint, severity)


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
