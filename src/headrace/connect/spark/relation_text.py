"""Relations as Spark SQL text: one nested query, whose columns are called c0, c1, ... at every level.

Fields are known by their position, because their own names may differ in case alone or repeat between two sides.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.connect.spark.aggregate_text import aggregate_text
from headrace.connect.spark.over_text import OverText
from headrace.connect.spark.sql_text import SqlNames, normal_text, spark_text
from headrace.model.expr import FALSE, Call, Expr
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Order,
    Over,
    Projection,
    Ranking,
    Relation,
    Scan,
    Sessions,
    TopK,
    Unfold,
    UnionAll,
    Windows,
    fields_of,
)

_JOINS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}


@dataclass(frozen=True, slots=True)
class RelationText:
    """Writes relations. `scans` names, for each scan, a table whose columns are c0, c1, ... in the scan's order."""

    scans: Mapping[Scan, str]
    python: Mapping[str, str]
    now: dt.datetime | None = None

    def of(self, relation: Relation) -> str:
        match relation:
            case Scan():
                return f"SELECT {_list_columns(_width(relation))} FROM {self.scans[relation]}"
            case Filter(input_, predicate):
                where = spark_text(predicate, self._names(input_))
                return f"SELECT {_list_columns(_width(input_))} FROM ({self.of(input_)}) WHERE {where}"
            case Projection(input_, outputs):
                names = self._names(input_)
                return f"SELECT {_write_list([normal_text(o.expr, names) for o in outputs])} FROM ({self.of(input_)})"
            case Join():
                return self._join(relation)
            case UnionAll(inputs):
                return " UNION ALL ".join(
                    f"SELECT {_list_columns(_width(part))} FROM ({self.of(part)})" for part in inputs
                )
            case Distinct(input_):
                return f"SELECT DISTINCT {_list_columns(_width(input_))} FROM ({self.of(input_)})"
            case Aggregate():
                return self._aggregate(relation)
            case Windows():
                return self._windows(relation)
            case Sessions():
                return self._sessions(relation)
            case Unfold():
                return self._unfold(relation)
            case TopK():
                return self._top_k(relation)
            case Over():
                return self._over(relation)
            case _:
                raise AssertionError(f"{type(relation).__name__} is of changes, which have no query")

    def _names(self, *inputs: Relation, prefixes: tuple[str, ...] = ("",)) -> SqlNames:
        columns = {
            field.name: f"{prefix}c{position}"
            for input_, prefix in zip(inputs, prefixes, strict=True)
            for position, field in enumerate(fields_of(input_))
        }
        return SqlNames(columns, self.python, self.now)

    def _join(self, join: Join) -> str:
        names = self._names(join.left, join.right, prefixes=("l.", "r."))
        columns = [f"l.c{position}" for position in range(_width(join.left))]
        if join.kind not in (JoinKind.SEMI, JoinKind.ANTI):
            columns += [f"r.c{position}" for position in range(_width(join.right))]
        left, right = self.of(join.left), self.of(join.right)
        on = _condition(join, names)
        return f"SELECT {_write_list(columns)} FROM ({left}) AS l {_JOINS[join.kind]} ({right}) AS r ON {on}"

    def _aggregate(self, relation: Aggregate) -> str:
        """Keys and arguments are computed below, since a constant in GROUP BY would be a position."""
        names = self._names(relation.input)
        keys = [normal_text(key.expr, names) for key in relation.keys]
        arguments = [normal_text(expr, names) for call in relation.calls for expr in call.inputs]
        below = f"SELECT {_write_list(keys + arguments)} FROM ({self.of(relation.input)})"
        columns, position = [f"c{number}" for number in range(len(keys))], len(keys)
        group = f" GROUP BY {', '.join(columns)}" if keys else ""
        for call in relation.calls:
            columns.append(aggregate_text(call, position))
            position += len(call.inputs)
        return f"SELECT {_write_list(columns)} FROM ({below}){group}"

    def _windows(self, windows: Windows) -> str:
        """Every row with its microseconds `u`, times each window `k` that could hold it, counted back from the last."""
        size, slide, offset = (1000 * length for length in (windows.size_ms, windows.slide_ms, windows.offset_ms))
        time = spark_text(windows.time, self._names(windows.input))
        width = _width(windows.input)
        timed = f"SELECT *, unix_micros({time}) AS u FROM ({self.of(windows.input)})"
        most = -(-size // slide)
        start = f"u - pmod(u - {offset}L, {slide}L) - k * {slide}L"
        starting = f"SELECT *, {start} AS s FROM ({timed}) LATERAL VIEW explode(sequence(0L, {most - 1}L)) AS k"
        columns = [*(f"c{n}" for n in range(width)), "timestamp_micros(s)", f"timestamp_micros(s + {size}L)"]
        return f"SELECT {_write_list(columns)} FROM ({starting}) WHERE s + {size}L > u"

    def _sessions(self, sessions: Sessions) -> str:
        """Every row with its microseconds `u` and the partition `p`; `s` counts the gaps before it."""
        gap, width, names = 1000 * sessions.gap_ms, _width(sessions.input), self._names(sessions.input)
        parts = [normal_text(expr, names) for expr in sessions.partition]
        keys = ", ".join(f"p{number}" for number in range(len(parts)))
        given = "".join(f", {part} AS p{number}" for number, part in enumerate(parts))
        over = f"PARTITION BY {keys}" if keys else ""
        time = f"unix_micros({spark_text(sessions.time, names)})"
        timed = f"SELECT * FROM (SELECT *, {time} AS u{given} FROM ({self.of(sessions.input)})) WHERE u IS NOT NULL"
        gaps = f"SELECT *, u - lag(u) OVER ({over} ORDER BY u) > {gap}L AS g FROM ({timed})"
        whole = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        counted = f"SELECT *, count_if(g) OVER ({over} ORDER BY u {whole}) AS s FROM ({gaps})"
        session = f"PARTITION BY {keys}, s" if keys else "PARTITION BY s"
        bounds = [f"timestamp_micros(min(u) OVER ({session}))", f"timestamp_micros(max(u) OVER ({session}) + {gap}L)"]
        columns = [*(f"c{n}" for n in range(width)), *bounds]
        return f"SELECT {_write_list(columns)} FROM ({counted})"

    def _unfold(self, unfold: Unfold) -> str:
        """Places counted up to the longest of the arrays; what an array does not have there is NULL."""
        fields = fields_of(unfold.input)
        names = [field.name for field in fields]
        arrays = [names.index(name) for name in unfold.columns]
        longest = f"greatest({', '.join(f'coalesce(size(c{at}), 0)' for at in arrays)}, 0)"
        places = f"CASE WHEN {longest} > 0 THEN sequence(1, {longest}) END"
        view = f"LATERAL VIEW {'OUTER ' if unfold.outer else ''}explode({places}) AS place"
        columns = [f"try_element_at(c{at}, place)" if at in arrays else f"c{at}" for at in range(len(fields))]
        columns += [] if unfold.place is None else ["CAST(place AS BIGINT)"]
        return f"SELECT {_write_list(columns)} FROM ({self.of(unfold.input)}) {view}"

    def _top_k(self, top: TopK) -> str:
        names, width = self._names(top.input), _width(top.input)
        order = [_order(part, names) for part in top.order]
        if top.ranking is Ranking.ROW_NUMBER:
            order += [f"c{position} ASC NULLS FIRST" for position in range(width)]
        partition = ", ".join(normal_text(expr, names) for expr in top.partition)
        over = (f"PARTITION BY {partition} " if partition else "") + f"ORDER BY {', '.join(order) or 'NULL'}"
        ranked = f"SELECT *, {top.ranking}() OVER ({over}) AS place FROM ({self.of(top.input)})"
        columns = [f"c{position}" for position in range(width)]
        columns += [] if top.rank_name is None else ["CAST(place AS BIGINT)"]
        places = f"place > {top.offset} AND place <= {top.offset + top.limit}"
        return f"SELECT {_write_list(columns)} FROM ({ranked}) WHERE {places}"

    def _over(self, over: Over) -> str:
        """All that is read is computed below, then rows are numbered, then the calls."""
        names, width = self._names(over.input), _width(over.input)
        exprs: list[Expr] = [*over.partition, *(part.expr for part in over.order)]
        aggregates = dict[str, int]()
        for call in over.calls:
            if isinstance(call.compute, AggregateCall):
                aggregates[call.name] = width + len(exprs)
            exprs += call.inputs
        columns = [f"c{position}" for position in range(width)]
        below = (
            f"SELECT {_write_list([*columns, *(normal_text(e, names) for e in exprs)])} FROM ({self.of(over.input)})"
        )
        split = width + len(over.partition)
        order = [(f"c{split + place}", part) for place, part in enumerate(over.order)]
        positions = {expr: width + place for place, expr in enumerate(exprs)}
        text = OverText([f"c{at}" for at in range(width, split)], order, columns, positions, aggregates)
        numbered = f"SELECT *, {text.place} AS place FROM ({below})"
        return f"SELECT {_write_list([*columns, *map(text.call, over.calls)])} FROM ({numbered})"


def _width(relation: Relation) -> int:
    return len(fields_of(relation))


def _list_columns(width: int) -> str:
    return _write_list([f"c{position}" for position in range(width)])


def _write_list(texts: list[str]) -> str:
    """A SELECT list; rows without fields have one, since SQL knows no others."""
    return ", ".join(f"{text} AS c{position}" for position, text in enumerate(texts or ["TRUE"]))


def _order(order: Order, names: SqlNames) -> str:
    direction, nulls = "DESC" if order.descending else "ASC", "FIRST" if order.nulls_first else "LAST"
    return f"{normal_text(order.expr, names)} {direction} NULLS {nulls}"


def _condition(join: Join, names: SqlNames) -> str:
    """NOT IN is written in the form that Spark has a hash join for."""
    tested = _is_not_false(join.on) if join.kind is JoinKind.ANTI else None
    if tested is None:
        return spark_text(join.on, names)
    text = spark_text(tested, names)
    return f"({text} OR ({text} IS NULL))"


def _is_not_false(on: Expr) -> Expr | None:
    match on:
        case Call("not", (Call("<=>", (tested, other)),)) if other == FALSE:
            return tested
        case _:
            return None
