"""A join step by Spark alone: for sides too large to look up in, and to test the step's own operator against.

Reads both sides whole and brings equal keys together. The answer is that of `run.operators.join`: changes meet the
rows whose (t, o) is smaller than theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from headrace.connect.spark.log_files import LogFiles, read_changes
from headrace.connect.spark.sql_text import SqlNames, normal_text, spark_text
from headrace.model.expr import Expr
from headrace.model.log import NEVER
from headrace.model.relation import Field
from headrace.run.ports import Store
from headrace.run.program import JoinStep, LogReading
from headrace.run.rows.changes import ORDER, STAMPS, TIME, WEIGHT

_EARLIER = f"(r.{TIME} < l.{TIME} OR (r.{TIME} = l.{TIME} AND r.{ORDER} < l.{ORDER}))"


@dataclass(frozen=True, slots=True)
class JoinFiles:
    """The files of a join step's two logs."""

    changes: LogFiles
    relation: LogFiles


def shuffle_join(
    session: SparkSession,
    store: Store,
    step: JoinStep,
    sides: JoinFiles,
    interval: tuple[int, int],
    made: Sequence[Field],
) -> DataFrame:
    """Changes that the step makes of an interval (after, upto], consolidated: the columns `made`, and the stamps."""
    after, upto = interval
    assert step.relation.key is not None, "a join looks up by a key"
    changes = _read_side(read_changes(session, store, sides.changes, after, upto), step.changes, sides.changes, {})
    computed = {output.name: output.expr for output in step.relation.key.computed}
    key = {column: computed.get(column) for column in step.relation.key.columns}
    relation = _read_side(read_changes(session, store, sides.relation, NEVER, upto), step.relation, sides.relation, key)
    left = {name: f"l.v{position}" for position, name in enumerate(step.changes.values)}
    right = {name: f"r.v{position}" for position, name in enumerate(step.relation.values)}
    names = {**left, **right}
    equal = [f"{left[name]} = r.k{position}" for position, name in enumerate(step.on)]
    on = " AND ".join([*equal, _EARLIER, spark_text(step.residual, SqlNames(names))])
    pairs = changes.alias("l").join(relation.alias("r"), fn.expr(on))
    columns = [f"{names[column.name]} AS m{position}" for position, column in enumerate(made)]
    weighted = pairs.selectExpr(*columns, f"l.{TIME}", f"l.{ORDER}", f"l.{WEIGHT} * r.{WEIGHT} AS {WEIGHT}")
    by = [f"m{position}" for position in range(len(made))] + [TIME, ORDER]
    summed = weighted.groupBy(*by).agg(fn.sum(WEIGHT).alias(WEIGHT)).where(f"{WEIGHT} <> 0")
    return summed.toDF(*(column.name for column in made), *STAMPS)


def _read_side(frame: DataFrame, reading: LogReading, log: LogFiles, key: Mapping[str, Expr | None]) -> DataFrame:
    """What the step reads, as v0, v1, ...; key columns as k0, k1, ...; the order as in the output."""
    names = SqlNames({column.name: f"c{position}" for position, column in enumerate(log.columns)})
    values = [f"{normal_text(expr, names)} AS v{position}" for position, expr in enumerate(reading.values.values())]
    keys = [
        f"{names.columns[column] if expr is None else normal_text(expr, names)} AS k{position}"
        for position, (column, expr) in enumerate(key.items())
    ]
    order = f"element_at(array({', '.join(map(str, reading.order))}), {ORDER} + 1) AS {ORDER}"
    return frame.where(spark_text(reading.filter, names)).selectExpr(*values, *keys, TIME, order, WEIGHT)
