"""Views as people read them: rows at a time, and changes from a time on. Nobody outside sees weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.meaning.python_functions import Functions, surroundings_of
from headrace.model.log import NEVER, Log, PieceKind
from headrace.model.relation import Field, Output
from headrace.run.operators.expressions import column_of
from headrace.run.operators.reading import schema_of
from headrace.run.ports import Store
from headrace.run.rows.arrow import arrow_table
from headrace.run.rows.changes import ORDER, TIME, WEIGHT, consolidate, contents, interval
from headrace.run.rows.hashes import hash_of

PART_ROWS = 250_000


def rows_at(
    store: Store, log: Log, columns: Sequence[Field], outputs: Sequence[Output], t: int, functions: Functions = ()
) -> pa.Table:
    """The rows of a view as of a time that its log reaches, each as often as it occurs.

    Before the base they are what is there now without the changes since then, as long as these are kept.
    """
    base, schema = log.base_t, schema_of(columns)
    assert t <= log.t, f'"{log.name}" is known up to {log.t}, not at {t}'
    tables = [store.read(log.site, piece.stored, schema.names) for piece in log.contents]
    if base is not None and t < base:
        since = [store.read(log.site, piece.stored, schema.names) for piece in log.changes(t, log.t)]
        tables += [_take_back(interval(table, t, log.t)) for table in since]
    rows = contents([schema.empty_table(), *tables], log.t if base is not None and t < base else t)
    repeated = np.repeat(np.arange(rows.num_rows), rows.column(WEIGHT).to_numpy())
    return compute_outputs(rows.take(pa.array(repeated)), outputs, functions)


def _take_back(changes: pa.Table) -> pa.Table:
    """Changes the other way round: what came goes, and what went comes."""
    weights = pc.negate(changes.column(WEIGHT))
    return changes.set_column(changes.schema.get_field_index(WEIGHT), changes.schema.field(WEIGHT), weights)


def parts_at(
    store: Store,
    log: Log,
    columns: Sequence[Field],
    outputs: Sequence[Output],
    t: int,
    functions: Functions = (),
    part_rows: int = PART_ROWS,
) -> Iterator[pa.Table]:
    """The rows of a view a part at a time, for views that are larger than memory: columns, and `__w` with how often
    each row occurs. Equal rows may come more than once.

    A base is read in slices. Only the changes after it are held, with the rows of the base that they may concern.
    """
    schema = schema_of(columns)
    names = [field.name for field in columns]
    later = [
        store.read(log.site, piece.stored, schema.names) for piece in log.contents if piece.kind is PieceKind.CHANGE
    ]
    changes = interval(pa.concat_tables([schema.empty_table(), *later]), NEVER, t)
    touched = np.unique(hash_of(changes, names))
    held = [changes]
    # All files are opened before the first part goes out: upkeep may delete them while somebody reads for long. What a
    # store opens is mapped, and is not held in memory.
    for base in [store.read(log.site, piece.stored, schema.names) for piece in log.of_kind(PieceKind.BASE)]:
        for start in range(0, base.num_rows, part_rows):
            part = base.slice(start, part_rows)
            if len(touched):
                may_change = np.isin(hash_of(part, names), touched)
                held.append(part.filter(pa.array(may_change)))
                part = part.filter(pa.array(~may_change))
            yield _with_weights(part, outputs, functions)
    yield _with_weights(contents(held, t), outputs, functions)


def repeat_rows(weighted: pa.Table) -> pa.Table:
    """Each row as often as it occurs, without weights."""
    times = np.repeat(np.arange(weighted.num_rows), weighted.column(WEIGHT).to_numpy())
    return weighted.take(pa.array(times)).drop_columns([WEIGHT])


def _with_weights(rows: pa.Table, outputs: Sequence[Output], functions: Functions) -> pa.Table:
    view = compute_outputs(rows, outputs, functions)
    return view.append_column(WEIGHT, rows.column(WEIGHT))


def changes_after(
    store: Store,
    log: Log,
    columns: Sequence[Field],
    outputs: Sequence[Output],
    after: int,
    upto: int,
    functions: Functions = (),
) -> Iterator[tuple[int, pa.Table, pa.Table]]:
    """Yields, for every time in (after, upto] at which the view changes, the rows that went, and those that came."""
    changes = consolidate(read_changes(store, log, columns, outputs, after, upto, functions))
    for time in sorted(pc.unique(changes.column(TIME)).to_pylist()):
        now = changes.filter(pc.equal(changes.column(TIME), time))
        yield time, _repeat_rows(now, -1), _repeat_rows(now, 1)


def net_changes(
    store: Store,
    log: Log,
    columns: Sequence[Field],
    outputs: Sequence[Output],
    after: int,
    upto: int,
    functions: Functions = (),
) -> pa.Table:
    """What turns the rows at one time into those at another: its columns and `__w`, each row once."""
    return contents([read_changes(store, log, columns, outputs, after, upto, functions)], upto)


def read_changes(
    store: Store,
    log: Log,
    columns: Sequence[Field],
    outputs: Sequence[Output],
    after: int,
    upto: int,
    functions: Functions = (),
) -> pa.Table:
    """The view's columns, time, order and weight of all changes in (after, upto]."""
    schema = schema_of(columns)
    tables = [store.read(log.site, piece.stored, schema.names) for piece in log.changes(after, upto)]
    rows = interval(pa.concat_tables([schema.empty_table(), *tables]), after, upto)
    view = compute_outputs(rows, outputs, functions)
    stamps = {TIME: rows.column(TIME), ORDER: pa.array(np.zeros(rows.num_rows, np.int32)), WEIGHT: rows.column(WEIGHT)}
    return pa.table({**{name: view.column(name) for name in view.column_names}, **stamps})


def _repeat_rows(changes: pa.Table, sign: int) -> pa.Table:
    weights = changes.column(WEIGHT).to_numpy() * sign
    chosen = np.repeat(np.arange(len(weights)), np.maximum(weights, 0))
    return changes.take(pa.array(chosen)).drop_columns([TIME, ORDER, WEIGHT])


def compute_outputs(rows: pa.Table, outputs: Sequence[Output], functions: Functions = ()) -> pa.Table:
    """The columns of a view, from rows of its log."""
    if not rows.num_rows:
        return arrow_table({output.name: output.expr.type for output in outputs}, [])
    around = surroundings_of(functions)
    return pa.table({output.name: column_of(output.expr, rows, around) for output in outputs})
