"""Columns against columns: keys, times and device ids must be columns of the sources they are looked for in.

Runs after databases were asked (where that was wished), since a source's columns may come from there. Sources whose
columns are not known are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from headrace.declare.document import Path, WrittenDocument
from headrace.declare.entries import Entries
from headrace.declare.project_file import DevicesEntry, TemplateEntry
from headrace.declare.validate import describe
from headrace.model.catalogue import Source, SourceColumn, SourceKind
from headrace.model.errors import Problem, Severity, nearest_name
from headrace.model.statistics import rows_of
from headrace.model.template_names import AT, DEVICE, SEQ, SIDES
from headrace.model.types import INTEGERS, TIMESTAMP, is_numeric


def check_columns(entries: Entries, sources: Mapping[str, Source]) -> Iterator[Problem]:
    """All mistakes about columns. `sources` are those whose entries are right."""
    for source in sources.values():
        yield from _check_source(entries, source)
    for name, devices in entries.devices.items():
        path = ("devices", name)
        table = sources.get(devices.table)
        yield from _unknown(entries, table, devices.id, (*path, "id"))
        if isinstance(devices.capacity, str):
            yield from _unknown(entries, table, devices.capacity, (*path, "capacity"))
        for stream, fields in devices.streams.items():
            yield from _check_names(entries.document, fields.columns, (*path, "streams", stream, "columns"))
            yield from _check_reserved(entries.document, fields.columns, (*path, "streams", stream, "columns"))
    for name, template in entries.templates.items():
        yield from _check_template(entries, sources, name, template)


def _check_reserved(document: WrittenDocument, columns: Iterable[str], path: Path) -> Iterator[Problem]:
    for name in columns:
        if name.casefold() in (DEVICE, SEQ, AT):
            what = f'{describe(path)}: every stream has a column "{name}" already'
            hint = "`at` is the time of a row, `device` and `seq` say whose and which it is; choose another name"
            yield Problem(what, document.key_at((*path, name)), hint)


def _check_template(
    entries: Entries, sources: Mapping[str, Source], name: str, template: TemplateEntry
) -> Iterator[Problem]:
    path: Path = ("templates", name)
    table, devices = sources.get(template.per.table), entries.devices.get(template.devices)
    people = None if devices is None else sources.get(devices.table)
    for side in SIDES:
        column = getattr(template.per, side)
        if column is not None:
            yield from _unknown(entries, table, column, (*path, "per", side))
            yield from _check_id(entries, (*path, "per", side), _find(table, column), _find(people, devices))
    for side, every in template.every.items():
        where = (*path, "every", side)
        if getattr(template.per, side) is None:
            what = f'template "{name}" has no side {side}'
            yield Problem(what, entries.document.key_at(where), f"name its column in `per`, or remove `{side}` here")
        elif isinstance(every, str):
            yield from _unknown(entries, table, every, where)
            found = _find(table, every)
            if found is not None and not is_numeric(found.type):
                what = f'template "{name}" has column "{every}" of type {found.type} for seconds'
                yield Problem(what, entries.document.value_at(where), "the column must be a number of seconds")


def _find(source: Source | None, column: str | DevicesEntry | None) -> SourceColumn | None:
    name = column.id if isinstance(column, DevicesEntry) else column
    columns = () if source is None else source.columns or ()
    return next((one for one in columns if one.name == name), None)


def _check_id(entries: Entries, path: Path, column: SourceColumn | None, id_: SourceColumn | None) -> Iterator[Problem]:
    """Pairs meet rows of devices by the device, so that both must name devices in one way."""
    if column is None or id_ is None or column.type == id_.type or {column.type, id_.type} <= set(INTEGERS):
        return
    what = f'{describe(path[:2])} has devices of type {column.type} in column "{column.name}", and they are of type '
    yield Problem(f"{what}{id_.type} in their table", entries.document.value_at(path), "both must be of one type")


def _check_source(entries: Entries, source: Source) -> Iterator[Problem]:
    if source.columns is None:
        return
    document = entries.document
    path: Path = ("sources", source.name)
    columns = {column.name: column for column in source.columns}
    yield from _check_names(document, columns, (*path, "columns"))
    for position, name in enumerate(source.key):
        yield from _unknown(entries, source, name, (*path, "key", position))
        if name in source.key[:position]:
            what = f'key of source "{source.name}" names column "{name}" twice'
            yield Problem(what, document.value_at((*path, "key", position)), "name each column once")
    if source.kind is SourceKind.STREAM and source.time is not None:
        yield from _unknown(entries, source, source.time, (*path, "time"))
        yield from _check_time(document, source, columns.get(source.time))
    for column in source.columns:
        if column.distinct is not None and source.rows is not None and column.distinct > rows_of(source):
            what = f'column "{column.name}" of source "{source.name}" has more distinct values than the source has rows'
            where = document.value_at((*path, "columns", column.name, "distinct"))
            yield Problem(what, where, None, Severity.WARNING)


def _check_time(document: WrittenDocument, source: Source, column: SourceColumn | None) -> Iterator[Problem]:
    if column is not None and column.type != TIMESTAMP:
        what = f'time of stream "{source.name}" is column "{column.name}" of type {column.type}'
        where = document.value_at(("sources", source.name, "time"))
        yield Problem(what, where, "the time column must be a timestamp")


def _check_names(document: WrittenDocument, columns: Iterable[str], path: Path) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name in columns:
        where = document.key_at((*path, name))
        if not name or any(character in ".`" or not character.isprintable() for character in name):
            what = f"{describe(path)}: {json.dumps(name)} is not a usable name"
            yield Problem(
                what,
                where,
                "a column's name has no dot, no backquote and no control character; leave it out of `columns`",
            )
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            what = f'{describe(path)}: "{other}" and "{name}" differ in upper and lower case only'
            yield Problem(what, where, "SQL cannot tell them apart: rename one, or leave it out of `columns`")


def _unknown(entries: Entries, source: Source | None, name: str, path: Path) -> Iterator[Problem]:
    """A mistake unless the source has the column. Names are matched exactly, as the database does."""
    if source is None or source.columns is None or path[2] in entries.lost[path[:2]]:
        return
    known = [column.name for column in source.columns]
    if name not in known:
        what = f'{describe(path[:2])} names column "{name}", which source "{source.name}" does not have'
        if path[:2] == ("sources", source.name):
            why = dict(source.left_out).get(name)
            what = f'{path[2]} of source "{source.name}" names column "{name}", which {why or "does not exist"}'
        listed = ", ".join(f'"{column}"' for column in known[:10])
        yield Problem(what, entries.document.value_at(path), nearest_name(name, known) or f"its columns are {listed}")
