"""Finds the rows of sources that a bad row is made of, so that people can look at them: by key, where there is one.

A bad row has the columns that its vertex holds, which need not include the keys. Rows of the source that agree in all
of those are looked for in what was captured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.bad_row import BadRow, names_by_alias, say_bad_row, say_values
from headrace.model.damage import DamagedFile
from headrace.model.types import Array, Value
from headrace.run.capture.spool import SPOOL
from headrace.run.operators.reading import schema_of
from headrace.run.ports import Ledger, Store
from headrace.run.program import Ingest, Program
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import TIME, WEIGHT, contents

NAMED = 3
"""How many rows that look alike are named."""


def say_where(bad: BadRow, program: Program, ledger: Ledger, store: Store, came: Collection[int] = ()) -> str:
    """What is wrong with which row, in words. Of rows that look alike, it is one that `came` at one of some times."""
    found = () if bad.is_group else tuple(_places(bad, program, ledger, store, {bad.time, *came}))
    return say_bad_row(bad, found)


def _places(bad: BadRow, program: Program, ledger: Ledger, store: Store, came: Collection[int | None]) -> Iterator[str]:
    """One for each row of a source that the expression reads."""
    sources = {
        task.step.spool.removeprefix(SPOOL): (name, task.step)
        for name, task in program.tasks.items()
        if isinstance(task.step, Ingest)
    }
    read = names_by_alias(bad.reads)
    for alias, names in names_by_alias(bad.row).items():
        source = alias.partition("#")[0]
        if alias in read and source in sources:
            known = {f"{source}.{name.removeprefix(f'{alias}.')}": bad.row[name] for name in names}
            vertex, step = sources[source]
            yield _place(source, step, known, _agreeing(vertex, step, known, (ledger, store), came))


def _place(source: str, step: Ingest, known: Mapping[str, Value], keys: list[dict[str, Value]]) -> str:
    if all(name in known for name in step.key) and step.key:
        keys = [{name: known[name] for name in step.key}]
    if not keys:
        return f"a row of {source} with {say_values(known)}"
    if len(keys) == 1:
        return f"row {say_values(keys[0])} of {source}"
    more = ", ..." if len(keys) > NAMED else ""
    return f"one of the rows {'; '.join(map(say_values, keys[:NAMED]))}{more} of {source}"


def _agreeing(
    vertex: str,
    step: Ingest,
    known: Mapping[str, Value],
    where: tuple[Ledger, Store],
    came: Collection[int | None],
) -> list[dict[str, Value]]:
    """Keys of the source's rows that have the known values; none if it has no keys."""
    ledger, store = where
    log = ledger.logs([vertex]).get(vertex)
    if log is None or not step.key or all(name in known for name in step.key):
        return []
    schema = schema_of(step.columns)
    try:
        found = [_filter_rows(store.read(log.site, piece.stored, schema.names), step, known) for piece in log.contents]
    except DamagedFile:
        return []  # the store has noted it; to name the row is a courtesy
    rows = pa.concat_tables([schema.empty_table(), *found])
    keys = {row[:-2] for row in rows_of_arrow(rows.select([*step.key, TIME, WEIGHT])) if row[-2] in came and row[-1]}
    there = set(rows_of_arrow(contents([rows], log.t).select(list(step.key))))
    chosen = (keys & there) or there or keys
    return [dict(zip(step.key, row, strict=True)) for row in sorted(chosen, key=str)]


def _filter_rows(table: pa.Table, step: Ingest, known: Mapping[str, Value]) -> pa.Table:
    plain = (column for column in step.columns if not isinstance(column.type, Array))
    types = {column.name: column.type for column in plain if column.name in known}
    wanted = arrow_table(types, [tuple(known[name] for name in types)])
    for name in types:
        value, column = wanted.column(name)[0], table.column(name)
        same = pc.equal(column, value) if value.is_valid else pc.is_null(column)
        table = table.filter(pc.fill_null(same, False))
    return table
