"""TUMBLE, HOP and SESSION in FROM: a table with the windows that hold each row's time.

Two spellings are read, each with the columns that it has where it comes from:

    TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES)     window_start, window_end, window_time (as in Flink)
    TUMBLE(t, ts, INTERVAL '10 minutes')                       window_start, window_end (as in RisingWave)

Both may stand inside TABLE(...). The text is brought to function calls before it is parsed (`window_text`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.declare.query.arguments import widen
from headrace.declare.query.environment import Environment, FromClause, Rows
from headrace.declare.query.expressions import read_value
from headrace.declare.query.mistakes import Mistake
from headrace.declare.query.scope import Visible
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.declare.query.time_windows import MILLISECOND, check_lengths, read_milliseconds
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.relation import Relation, Sessions, Windows
from headrace.model.types import DAY_TIME, TIMESTAMP

DESCRIPTOR = "descriptor"
_SPELLED = {
    "tumble": "TUMBLE(t, ts, INTERVAL '10 minutes')",
    "hop": "HOP(t, ts, INTERVAL '5 minutes', INTERVAL '10 minutes'): how far windows slide, then how long they are",
    "session": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' MINUTES)",
}

ReadItem = Callable[[exp.Expr, Environment, "QueryStage | None"], FromClause]


def read_window_table(
    node: exp.Table, call: exp.Anonymous, environment: Environment, outer: QueryStage | None, read_item: ReadItem
) -> tuple[Rows, str]:
    """Rows with their windows, and the name by which they are known if the query gives none."""
    item = _make_item(call)
    clause = read_item(item, environment, outer)
    (table,) = clause.scope.tables
    stage = QueryStage(environment, "FROM", clause.scope, clause.relation, not_null=clause.not_null, outer=outer)
    rows = Rows(clause.relation, table.columns, clause.not_null, clause.correlated, complete=False)
    with PlacedMistakes(stage, call):
        return _with_windows(call, stage, replace(rows, complete=table.complete)), table.alias
    return rows, table.alias


def _make_item(call: exp.Anonymous) -> exp.Expr:
    """The first argument as an item of FROM."""
    named = call.expressions[0] if call.expressions else exp.Placeholder()
    return named if isinstance(named, exp.Table | exp.Subquery) else exp.Subquery(this=named)


def _with_windows(call: exp.Anonymous, stage: QueryStage, rows: Rows) -> Rows:
    function, arguments = call.name.lower(), call.expressions[1:]
    described = [place for place, one in enumerate(arguments) if _is_descriptor(one)]
    place = described[0] if described else 0
    if len(arguments) <= place or (place and function != "session"):
        raise Mistake(f'"{function}" needs a table, a column of times and a length', _SPELLED[function])
    time = widen(read_value(_find_time(arguments[place]), stage), TIMESTAMP)
    partition = tuple(read_value(key, stage) for key in arguments[:place])
    environment = stage.environment
    start, end = (environment.books.fresh(f"{environment.path}{name}") for name in ("window_start", "window_end"))
    relation = _make_windows(function, stage.relation, partition, time, arguments[place + 1 :], (start, end))
    bounds = {"window_start": Column(start, TIMESTAMP), "window_end": Column(end, TIMESTAMP)}
    values: dict[str, Expr] = {**bounds}
    if described:
        tick = Literal(MILLISECOND, DAY_TIME)
        values["window_time"] = Call("-", (bounds["window_end"], tick), TIMESTAMP)
    columns = (*rows.columns, *(Visible(name, value) for name, value in values.items()))
    not_null = rows.not_null | {start, end} | ({time.name} if isinstance(time, Column) else set())
    return replace(rows, relation=relation, columns=columns, not_null=frozenset(not_null))


def _is_descriptor(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == DESCRIPTOR


def _find_time(node: exp.Expr) -> exp.Expr:
    if not _is_descriptor(node):
        return node
    if len(node.expressions) != 1:
        raise Mistake("DESCRIPTOR takes one column")
    only: exp.Expr = node.expressions[0]
    return only


def _make_windows(
    function: str,
    relation: Relation,
    partition: tuple[Expr, ...],
    time: Expr,
    lengths: Sequence[exp.Expr],
    bounds: tuple[str, str],
) -> Relation:
    given = [read_milliseconds(node) for node in lengths]
    fewest, most = {"tumble": (1, 2), "hop": (2, 3), "session": (1, 1)}[function]
    if not fewest <= len(given) <= most:
        raise Mistake(f'"{function}" has {len(given)} lengths', _SPELLED[function])
    if function == "session":
        if given[0] <= 0:
            raise Mistake("the gap of a session must be greater than zero")
        return Sessions(relation, partition, time, given[0], *bounds)
    if function == "hop":
        slide, size, *offset = given
    else:
        (size, *offset), slide = given, given[0]
    return Windows(relation, time, *check_lengths(size, slide, offset[0] if offset else 0), *bounds)
