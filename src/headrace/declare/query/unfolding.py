"""Functions that give rows: `explode`, `unnest`, `generate_series` and the like, wherever they may be written.

Each is made of arrays, of which every element is a row: in FROM beside the items before it, after LATERAL VIEW, or in
the SELECT list. What it adds to the rows at hand is always the same step.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from sqlglot import exp

from headrace.declare.query import operators
from headrace.declare.query.arguments import apply, widen
from headrace.declare.query.calls import function
from headrace.declare.query.constants import make_one_row
from headrace.declare.query.environment import Environment, FromClause
from headrace.declare.query.expressions import read_value
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.scope import FromTable, Scope, Visible, fold
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.declare.query.tables import name_item
from headrace.meaning.functions import FUNCTIONS
from headrace.model.dialect import SqlDialect
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.relation import Output, Projection, Relation, Unfold, fields_of
from headrace.model.types import BIGINT, INT, INTEGERS, INTERVALS, NULL, STRING, TIMESTAMP, YEAR_MONTH, Array


@dataclass(frozen=True, slots=True)
class Elements:
    """What a function gives: arrays whose elements are the columns of its rows. `place_first`: so is their place."""

    arrays: tuple[Expr, ...]
    names: tuple[str, ...]
    place_first: str | None = None
    outer: bool = False


@dataclass(frozen=True, slots=True)
class UnfoldedRows:
    """Rows with the elements beside them, and these as columns."""

    relation: Relation
    columns: tuple[Visible, ...]


def find_function(node: exp.Expr) -> str | None:
    """The name of the function of rows that an item of FROM is; None if it is none that we have."""
    inner = node.this if isinstance(node, exp.Lateral | exp.Table) else node
    if isinstance(inner, exp.Unnest):
        return "unnest"
    name = inner.name.lower() if isinstance(inner, exp.Anonymous) else None
    return name if name in _FUNCTIONS or name in _OF_TEXT else None


def unfold_item(node: exp.Expr, left: FromClause | None, environment: Environment, stage: QueryStage) -> FromClause:
    """An item of FROM with what it is unfolded from. Without items before it, it stands beside one row."""
    before = FromClause(make_one_row(environment), Scope()) if left is None else left
    inner = node.this if isinstance(node, exp.Lateral | exp.Table) else node
    elements = _read_elements(inner, stage)
    if isinstance(node, exp.Lateral) and node.args.get("outer"):
        elements = replace(elements, outer=True)
    alias = name_item(node, environment.books.fresh(_name_of(inner)), environment)
    numbered = _find_ordinality(node, inner)
    rows = _unfold(elements, stage, f"{environment.path}{alias}.", numbered=numbered)
    columns = _rename(rows.columns, node, alias, environment)
    named = FromTable(alias, columns, itself=_find_itself(rows, node, environment))
    return FromClause(rows.relation, replace(before.scope, tables=(*before.scope.tables, named)), before.not_null)


def _name_of(node: exp.Expr) -> str:
    return "unnest" if isinstance(node, exp.Unnest) else str(node.name).lower()


def _find_ordinality(node: exp.Expr, inner: exp.Expr) -> bool:
    offset = inner.args.get("offset") if isinstance(inner, exp.Unnest) else node.args.get("ordinality")
    return bool(offset)


def _rename(columns: tuple[Visible, ...], node: exp.Expr, alias: str, environment: Environment) -> tuple[Visible, ...]:
    """The names that are written after AS; a single column may have that of the table in PostgreSQL."""
    given = [column.name for column in (node.args["alias"].columns if node.args.get("alias") else [])]
    inner = node.this if isinstance(node, exp.Lateral | exp.Table) else node
    offset = inner.args.get("offset") if isinstance(inner, exp.Unnest) else None
    given += [offset.name] if isinstance(offset, exp.Expr) and given else []
    in_postgres = environment.text.dialect is SqlDialect.POSTGRES
    if not given and node.alias and in_postgres and len(columns) - _find_ordinality(node, inner) == 1:
        given = [] if _keeps_names(inner) else [alias]
    if len(given) > len(columns):
        environment.error(f'"{alias}" has {len(columns)} columns, not {len(given)}', node)
    renamed = [replace(column, name=name) for column, name in zip(columns, given, strict=False)]
    return (*renamed, *columns[len(renamed) :])


def _keeps_names(inner: exp.Expr) -> bool:
    """Functions of JSON name their columns `value` or `key`, whatever the rows are called."""
    return _name_of(inner).startswith("json") and not _name_of(inner).endswith("object_keys")


def _find_itself(rows: UnfoldedRows, node: exp.Expr, environment: Environment) -> Expr | None:
    """What the name of the rows means as a value: their only column, in PostgreSQL."""
    is_alone = environment.text.dialect is SqlDialect.POSTGRES and len(rows.columns) == 1
    return rows.columns[0].value if is_alone and node.alias else None


def unfold_list(nodes: Sequence[exp.Expr], stage: QueryStage, *, aggregated: bool) -> list[exp.Expr]:
    """The SELECT list with the columns of the one function of rows in it, which has unfolded the rows at hand."""
    found = [call for node in nodes for call in _find_calls(node)]
    if not found:
        return list(nodes)
    with PlacedMistakes(stage, found[0]):
        if len(found) > 1 and stage.environment.text.dialect is not SqlDialect.POSTGRES:
            raise NotMaintained("several table functions", "write the second one in FROM: LATERAL VIEW explode(...)")
        if aggregated:
            raise NotMaintained("table function of groups", "group in a query of its own in FROM, and unfold that")
        items = list(nodes)
        for call, columns in _unfold_together(found, stage):
            items = [item for node in items for item in _place_columns(node, call, columns, stage)]
        return items
    return [node for node in nodes if not _find_calls(node)]


def unfolds(nodes: Sequence[exp.Expr]) -> bool:
    """Whether there is a function of rows in a SELECT list."""
    return any(_find_calls(node) for node in nodes)


def _unfold_together(
    calls: Sequence[exp.Anonymous], stage: QueryStage
) -> Iterator[tuple[exp.Anonymous, tuple[Visible, ...]]]:
    """The columns of each call. The first rows of all stand side by side, then the second ones: as many rows as the
    longest has, with NULLs beside it.
    """
    read = [_read_elements(call, stage) for call in calls]
    if len(read) > 1 and any(one.place_first or one.outer for one in read):
        raise NotMaintained("several table functions", "write the second one in FROM: LATERAL VIEW explode(...)")
    arrays, names = (
        tuple(chain.from_iterable(parts)) for parts in zip(*((x.arrays, x.names) for x in read), strict=True)
    )
    together = read[0] if len(read) == 1 else Elements(arrays, names)
    rows = _unfold(together, stage, stage.environment.path, numbered=False)
    stage.relation, columns = rows.relation, rows.columns
    for call, elements in zip(calls, read, strict=True):
        width = len(elements.names) + bool(elements.place_first)
        yield call, columns[:width]
        columns = columns[width:]


def unfold_keys(select: exp.Select, stage: QueryStage) -> list[exp.Expr] | None:
    """The SELECT list of a query with groups, where a function of rows by which it groups has unfolded the rows; None
    if it groups by none.
    """
    items = list(select.expressions)
    keys = [key.unnest() for key in (select.args["group"].expressions if select.args.get("group") else ())]
    grouped = [item for place, item in enumerate(items, 1) if _find_calls(item) and _is_key(item, place, keys)]
    if not grouped:
        return None
    made = unfold_list(items, stage, aggregated=len(grouped) < sum(bool(_find_calls(item)) for item in items))
    for call in (inner for key in keys for inner in _find_calls(key)):
        same = next((one for item in grouped for one in _find_calls(item) if one == call), None)
        if same is not None and id(same) in stage.values:
            stage.values = {**stage.values, id(call): stage.values[id(same)]}
    return made


def _is_key(item: exp.Expr, place: int, keys: Sequence[exp.Expr]) -> bool:
    """Whether GROUP BY names an item by its place, its name, or what it is."""
    value, name = item.unalias(), fold(item.alias) if isinstance(item, exp.Alias) else None
    return any(
        key == value
        or (isinstance(key, exp.Literal) and not key.is_string and key.name == str(place))
        or (isinstance(key, exp.Column) and not key.table and fold(key.name) == name)
        for key in keys
    )


def _find_calls(node: exp.Expr) -> list[exp.Anonymous]:
    if isinstance(node, exp.Query):
        return []
    if isinstance(node, exp.Anonymous) and (node.name.lower() in _FUNCTIONS or node.name.lower() in _OF_TEXT):
        return [node]
    return [call for inner in node.iter_expressions() for call in _find_calls(inner)]


def _place_columns(
    node: exp.Expr, call: exp.Anonymous, columns: tuple[Visible, ...], stage: QueryStage
) -> list[exp.Expr]:
    """An item that is the call becomes one item for each column; one around it has the value in its place."""
    if call not in _find_calls(node):
        return [node]
    alone = node is call or (isinstance(node, exp.Alias | exp.Aliases) and node.this is call)
    if not alone or (isinstance(node, exp.Alias) and len(columns) == 1):
        if len(columns) > 1:
            raise Mistake(f'"{call.name}" gives several columns, not one value')
        stage.values = {**stage.values, id(call): columns[0].value}
        return [node]
    given = [name.name for name in node.expressions] if isinstance(node, exp.Aliases) else []
    names = given or [column.name for column in columns]
    if len(names) != len(columns):
        raise Mistake(f'"{call.name}" gives {len(columns)} columns, not {len(names)}')
    items: list[exp.Expr] = []
    for column, name in zip(columns, names, strict=True):
        stand_in = exp.Null()
        stage.values = {**stage.values, id(stand_in): column.value}
        items.append(exp.Alias(this=stand_in, alias=exp.to_identifier(name, quoted=True)))
    return items


def _unfold(elements: Elements, stage: QueryStage, path: str, *, numbered: bool) -> UnfoldedRows:
    """The rows at hand, once for each element."""
    books, relation = stage.environment.books, stage.relation
    kept = tuple(Output(field.name, Column(field.name, field.type)) for field in fields_of(relation))
    names = tuple(books.fresh(f"{path}{name}") for name in elements.names)
    arrays = tuple(Output(name, array) for name, array in zip(names, elements.arrays, strict=True))
    place = books.fresh(f"{path}place") if numbered or elements.place_first else None
    unfolded = Unfold(Projection(relation, (*kept, *arrays)), names, place, elements.outer)
    columns = tuple(
        Visible(name, Column(field, array.type.element))
        for name, field, array in zip(elements.names, names, elements.arrays, strict=True)
        if isinstance(array.type, Array)
    )
    if place is not None and elements.place_first:
        from_zero = operators.arithmetic("-", Column(place, BIGINT), Literal(1, BIGINT))
        columns = (Visible(elements.place_first, operators.cast(from_zero, INT)), *columns)
    if place is not None and numbered:
        columns = (*columns, Visible("ordinality", Column(place, BIGINT)))
    return UnfoldedRows(unfolded, columns)


# Functions


def _read_elements(node: exp.Expr, stage: QueryStage) -> Elements:
    name = "unnest" if isinstance(node, exp.Unnest) else node.name.lower()
    if name in _OF_TEXT:
        call = exp.Anonymous(this=_OF_TEXT[name], expressions=node.expressions)
        return Elements((read_value(call, stage),), (name,))
    arguments = tuple(read_value(argument, stage) for argument in _read_step(node, name, stage))
    if name == "unnest" and stage.environment.text.dialect is SqlDialect.POSTGRES:
        arguments = tuple(map(_flatten, arguments))
    if isinstance(node, exp.Unnest) and node.args.get("explode_array"):
        raise NotMaintained("table function: unnest", "unnest columns that hold arrays")
    return _FUNCTIONS[name](*arguments)


def _read_step(node: exp.Expr, name: str, stage: QueryStage) -> list[exp.Expr]:
    """The arguments of a call; a text that PostgreSQL takes for the step of a series of times is an interval."""
    arguments = list(node.expressions)
    is_text = len(arguments) == 3 and isinstance(arguments[2], exp.Literal) and arguments[2].is_string
    if name == "generate_series" and is_text and stage.environment.text.dialect is SqlDialect.POSTGRES:
        arguments[2] = exp.Interval(this=arguments[2].copy())
    return arguments


def _flatten(array: Expr) -> Expr:
    """All elements of an array of arrays."""
    while isinstance(array.type, Array) and isinstance(array.type.element, Array):
        array = Call("flatten", (array,), array.type.element)
    return array


def _check_array(value: Expr) -> Expr:
    if value.type == NULL:
        return Literal(None, Array(INT))
    if not isinstance(value.type, Array):
        raise Mistake(f"{value.type} has no elements", "it needs an array")
    return value


def _take_arguments(name: str, fewest: int, most: int, make: Callable[..., Elements]) -> Callable[..., Elements]:
    def check(*arguments: Expr) -> Elements:
        if not fewest <= len(arguments) <= most:
            raise Mistake(f'function "{name}" does not take {len(arguments)} arguments')
        return make(*arguments)

    return check


def _explode(*, numbered: bool, outer: bool) -> Callable[[Expr], Elements]:
    return lambda array: Elements((_check_array(array),), ("col",), "pos" if numbered else None, outer)


def _unnest(*arrays: Expr) -> Elements:
    names = ("unnest", *(f"unnest_{number}" for number in range(2, len(arrays) + 1)))
    return Elements(tuple(map(_check_array, arrays)), names)


def _generate_series(start: Expr, stop: Expr, *step: Expr) -> Elements:
    """PostgreSQL's: nothing if the steps lead away from the end."""
    if start.type in INTEGERS and stop.type in INTEGERS:
        by = step[0] if step else Literal(1, INT)
        down = isinstance(by, Literal) and isinstance(by.value, int) and by.value < 0
        zero = isinstance(by, Literal) and by.value == 0
    elif not step:
        raise Mistake("generate_series of times needs a step: INTERVAL '1 day'")
    else:
        by, start, stop = step[0], widen(start, TIMESTAMP), widen(stop, TIMESTAMP)
        if by.type not in INTERVALS:
            raise Mistake("generate_series of times needs an interval for a step: INTERVAL '1 day'")
        if by.type == YEAR_MONTH and not _is_in_all_months(start):
            hint = "begin on a day that all months have: generate_series(date_trunc('month', start), ...)"
            raise NotMaintained("table function: generate_series by months", hint)
        amount: Any = by.value if isinstance(by, Literal) else None
        zero = amount is not None and not amount
        down = amount is not None and amount < type(amount)()
    if not isinstance(by, Literal):
        raise NotMaintained("table function: generate_series by a step that changes", "write the step as a constant")
    if zero:
        raise Mistake("the step of generate_series is zero")
    reaches = operators.compare(">=" if down else "<=", start, stop)
    series = function("sequence", (start, stop, by), {})
    return Elements((operators.case((reaches,), (series,), Literal(None, series.type)),), ("generate_series",))


def _is_in_all_months(start: Expr) -> bool:
    """Whether a time is on a day that no month lacks: PostgreSQL adds one month after the other: 31, 28, 28."""
    while isinstance(start, Call) and start.function == "cast":
        start = start.arguments[0]
    if isinstance(start, Literal):
        return isinstance(start.value, dt.date) and start.value.day <= 28
    unit = start.arguments[0] if isinstance(start, Call) and start.function == "date_trunc" else None
    return isinstance(unit, Literal) and unit.value in ("MONTH", "QUARTER", "YEAR")


def _range(*bounds: Expr) -> Elements:
    """Spark's: the end is not among the numbers."""
    low, high = (Literal(0, BIGINT), bounds[0]) if len(bounds) == 1 else bounds[:2]
    step = bounds[2] if len(bounds) > 2 else Literal(1, BIGINT)
    if not (isinstance(step, Literal) and isinstance(step.value, int) and step.value > 0):
        raise NotMaintained("table function: range by other steps", "steps are positive constants")
    start, stop, by = (widen(bound, BIGINT) for bound in (low, high, step))
    last = operators.arithmetic("-", stop, Literal(1, BIGINT))
    series = function("sequence", (start, last, by), {})
    reaches = operators.compare("<", start, stop)
    return Elements((operators.case((reaches,), (series,), Literal(None, series.type)),), ("id",))


def _stack(count: Expr, *values: Expr) -> Elements:
    if not (isinstance(count, Literal) and isinstance(count.value, int) and count.value > 0):
        raise Mistake("stack needs the number of rows as a constant greater than zero")
    width = -(-len(values) // count.value)
    columns = [values[column::width] for column in range(width)]
    arrays = tuple(apply(FUNCTIONS["array"], operators.unify(column)) for column in columns)
    return Elements(arrays, tuple(f"col{column}" for column in range(width)))


def _json_items(*, as_text: bool) -> Callable[[Expr], Elements]:
    """PostgreSQL's `json_array_elements`, and the same as text."""

    def make(value: Expr) -> Elements:
        items = apply(FUNCTIONS["json_items"], (value,))
        return Elements((_as_texts(items) if as_text else items,), ("value",))

    return make


def _json_each(*, as_text: bool) -> Callable[[Expr], Elements]:
    def make(value: Expr) -> Elements:
        names, values = (apply(FUNCTIONS[part], (value,)) for part in ("json_names", "json_values"))
        return Elements((names, _as_texts(values) if as_text else values), ("key", "value"))

    return make


def _as_texts(items: Expr) -> Expr:
    item = Call("lambda_variable", (Literal(1, INT),), STRING)
    return Call("transform", (items, item, Call("json_text", (item,), STRING)), Array(STRING))


def _json_tuple(value: Expr, *names: Expr) -> Elements:
    """Spark's: members of an object by name, in one row."""
    if not all(isinstance(name, Literal) and isinstance(name.value, str) for name in names):
        raise NotMaintained("table function: json_tuple with names that change", "write the names as constants")
    paths = [Literal(f"$['{name.value!s}']", STRING) for name in names if isinstance(name, Literal)]
    values = [apply(FUNCTIONS["get_json_object"], (value, path)) for path in paths]
    arrays = tuple(apply(FUNCTIONS["array"], (found,)) for found in values)
    return Elements(arrays, tuple(f"c{number}" for number in range(len(names))))


def _json_names(value: Expr) -> Elements:
    return Elements((apply(FUNCTIONS["json_names"], (value,)),), ("json_object_keys",))


_ANY_NUMBER = 1000
_FUNCTIONS: Mapping[str, Callable[..., Elements]] = {
    "explode": _take_arguments("explode", 1, 1, _explode(numbered=False, outer=False)),
    "explode_outer": _take_arguments("explode_outer", 1, 1, _explode(numbered=False, outer=True)),
    "posexplode": _take_arguments("posexplode", 1, 1, _explode(numbered=True, outer=False)),
    "posexplode_outer": _take_arguments("posexplode_outer", 1, 1, _explode(numbered=True, outer=True)),
    "unnest": _take_arguments("unnest", 1, _ANY_NUMBER, _unnest),
    "generate_series": _take_arguments("generate_series", 2, 3, _generate_series),
    "range": _take_arguments("range", 1, 3, _range),
    "stack": _take_arguments("stack", 2, _ANY_NUMBER, _stack),
    **{
        f"{kind}_{name}": _take_arguments(f"{kind}_{name}", 1, 1, make)
        for kind in ("json", "jsonb")
        for name, make in (
            ("array_elements", _json_items(as_text=False)),
            ("array_elements_text", _json_items(as_text=True)),
            ("each", _json_each(as_text=False)),
            ("each_text", _json_each(as_text=True)),
        )
    },
    "json_tuple": _take_arguments("json_tuple", 2, _ANY_NUMBER, _json_tuple),
    "jsonb_object_keys": _take_arguments("jsonb_object_keys", 1, 1, _json_names),
}
"""By name, in lower case."""

_OF_TEXT = {"string_to_table": "string_to_array", "regexp_split_to_table": "regexp_split_to_array"}
"""Functions of PostgreSQL that unfold what another one gives."""
