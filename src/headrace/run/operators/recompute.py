"""Changes of a view that is evaluated from scratch: the difference between all its rows now and all its rows before.

All changes have the time of the push. Whatever has not changed cancels out, so that readers see what they would see of
a view that is maintained.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from headrace.meaning.python_functions import Functions
from headrace.model.expr import Column
from headrace.run.operators.reading import schema_of
from headrace.run.ports import Evaluate
from headrace.run.program import LogSpec, RecomputeStep
from headrace.run.rows.changes import STAMPS, WEIGHT, consolidate, stamp_rows, with_weights


def each_as_often(contents: pa.Table) -> pa.Table:
    """Rows as often as they occur, without stamps and weights."""
    repeated = np.repeat(np.arange(contents.num_rows), contents.column(WEIGHT).to_numpy())
    rows = contents.take(pa.array(repeated)).drop_columns([name for name in STAMPS if name in contents.column_names])
    return in_order(rows)


def in_order(rows: pa.Table) -> pa.Table:
    """Sorts rows in an order that depends on nothing but the rows: where a query leaves an order open, equal rows shall
    give equal answers.
    """
    sortable = sorted(field.name for field in rows.schema if not pa.types.is_nested(field.type))
    return rows.sort_by([(name, "ascending") for name in sortable]) if sortable and rows.num_rows else rows


def evaluate_view(
    step: RecomputeStep, log: LogSpec, tables: Mapping[str, pa.Table], t: int, engine: tuple[Evaluate, Functions]
) -> pa.Table:
    """All rows of the view at time t under the log's names, each once, with how often it occurs."""
    evaluate, functions = engine
    answer = evaluate(step.recomputed, tables, t, functions)
    names = {output.name: output.expr.name for output in step.outputs if isinstance(output.expr, Column)}
    rows = pa.table({name: answer.column(column) for name, column in names.items()})
    rows = rows.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), answer.num_rows))
    schema = schema_of(log.columns)
    return consolidate(stamp_rows(rows, t).select(schema.names).cast(schema))


def difference(now: pa.Table, before: pa.Table, t: int) -> pa.Table:
    """What turns the rows before into those of now, all at one time."""
    gone = with_weights(before, -before.column(WEIGHT).to_numpy())
    gone = stamp_rows(gone, t).select(now.column_names).cast(now.schema)
    return consolidate(pa.concat_tables([now, gone]))
