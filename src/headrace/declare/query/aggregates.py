"""Aggregate functions: which nodes of a query are aggregates, and what each computes for a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.declare.query import calls, operators
from headrace.declare.query.aggregate_syntax import WrittenAggregate, called_function, read_written
from headrace.declare.query.expressions import read_condition, read_expression, read_type
from headrace.declare.query.known_functions import AGGREGATES, MAINTAINED_AGGREGATES
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_aggregates import convert_arguments
from headrace.declare.query.postgres_counts import count_rows
from headrace.declare.query.postgres_spans import SORTING
from headrace.declare.query.ranking import sort_key
from headrace.declare.query.stage import QueryStage
from headrace.model.dialect import SqlDialect
from headrace.model.expr import TRUE, Call, Expr, Literal, columns_of
from headrace.model.promotion import average_type, sum_type
from headrace.model.relation import AggregateCall, AggregateFunction, Order, fields_of
from headrace.model.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    INTEGERS,
    INTERVALS,
    NULL,
    STRING,
    Array,
    Decimal,
    Type,
    is_numeric,
)

_ONE = Literal(1, INT)
_ROW = Literal(True, BOOLEAN)
"""Stands before the columns of a row that is counted."""
_ACCURACY = "it is answered exactly: leave the accuracy out"


def aggregates_in(nodes: Iterable[exp.Expr], stage: QueryStage) -> list[exp.Expr]:
    """The aggregates of a query's own expressions, outermost first; those of its subqueries are their own."""
    return [found for node in nodes for found in _find_aggregates(node, stage)]


def _find_aggregates(node: exp.Expr, stage: QueryStage) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Query):
        return
    if _is_aggregate(node, stage):
        yield node
        return
    for part in node.iter_expressions():
        if isinstance(node, exp.Window) and part is node.this and _is_aggregate(part, stage):
            # sum(x) OVER (...) is no aggregate of the group, but sum(sum(x)) OVER (...) has one inside.
            yield from aggregates_in(_parts_of_call(part), stage)
        else:
            yield from _find_aggregates(part, stage)


def _parts_of_call(node: exp.Expr) -> Iterator[exp.Expr]:
    """The arguments of a function, and what is written around it."""
    while not isinstance(node, exp.Anonymous | exp.Any):
        yield from (part for part in node.iter_expressions() if part is not node.this)
        node = node.this
    yield from node.iter_expressions()


def _is_aggregate(node: exp.Expr, stage: QueryStage) -> bool:
    name = called_function(node)
    return name in AGGREGATES and name not in stage.environment.declared.functions


def read_aggregate(node: exp.Expr, stage: QueryStage, name: str) -> AggregateCall:
    """One aggregate over the rows at hand. FILTER (WHERE p) counts other rows as NULL."""
    written = read_written(node)
    if written.function not in MAINTAINED_AGGREGATES:
        raise NotMaintained(f"aggregate: {written.function}")
    inside = replace(stage, clause="an aggregate", places={})
    in_postgres = stage.environment.text.dialect is SqlDialect.POSTGRES
    if in_postgres and written.function == "count" and len(written.arguments) == 1 and not written.distinct:
        counted = count_rows(written.arguments[0], inside)
        if counted is not written.arguments[0]:
            written.arguments[0].replace(counted)  # for whoever writes the text out
            written = replace(written, arguments=(counted,))
    stars = tuple(argument for argument in written.arguments if isinstance(argument, exp.Star))
    if written.function == "count" and written.distinct and len(written.arguments) == 1:
        written = replace(written, arguments=_spread_row(written.arguments[0]))
    if stars and (written.function != "count" or len(written.arguments) > 1 or written.distinct):
        raise Mistake(f'"{written.function}" takes values, not "*"')
    if in_postgres:
        written = convert_arguments(written, lambda part: read_type(part, inside))
    values = () if stars else tuple(_read_argument(argument, inside) for argument in written.arguments)
    order = tuple(_read_key(written, key, inside) for key in written.order)
    only_if = None if written.only_if is None else read_condition(written.only_if, inside)
    stage.relation = inside.relation  # subqueries inside have extended it
    call = replace(_READERS[written.function](_Aggregate(written, values, order, only_if)), name=name)
    if in_postgres and written.function == "percentile_disc":
        assert call.argument is not None, "it is of values"
        call = replace(call, type=call.argument.type)  # one of the values, where Spark makes it a double
    _refuse_intervals(call)
    _refuse_outer_columns(call, stage)
    return call


def _read_argument(node: exp.Expr, stage: QueryStage) -> Expr:
    return _ROW if node == exp.Tuple() else read_expression(node, stage)


def _spread_row(node: exp.Expr) -> tuple[exp.Expr, ...]:
    """`count(DISTINCT (a, b))` counts rows, of which none is NULL, whatever is in it."""
    inner = node.unnest()
    is_row = isinstance(inner, exp.Tuple) or (isinstance(inner, exp.Anonymous) and inner.name.lower() == "row")
    return (exp.Tuple(), *inner.expressions) if is_row else (node,)


def _read_key(written: WrittenAggregate, key: exp.Expr, inside: QueryStage) -> Order:
    """A key of ORDER BY. In WITHIN GROUP it is the value itself."""
    value = read_expression(key.this, inside)
    order = sort_key(key, value, inside)
    return replace(order, expr=value) if written.within and written.function not in _JOINING else order


_JOINING = ("string_agg", "listagg", "group_concat")


def _refuse_outer_columns(call: AggregateCall, stage: QueryStage) -> None:
    """An aggregate of outer columns alone is one of the query around, over that query's rows."""
    named = {name for expr in call.inputs for name in columns_of(expr)}
    if stage.outer is not None and named and named.isdisjoint(field.name for field in fields_of(stage.relation)):
        hint = "select it in the query around, or name a column of the inner query in it"
        raise NotMaintained(f"aggregate: {call.function.value} of outer columns", hint)


def _refuse_intervals(call: AggregateCall) -> None:
    for expr in call.inputs:
        if expr.type in INTERVALS:
            raise NotMaintained(f"aggregate: {call.function.value} of {expr.type}")


@dataclass(frozen=True, slots=True)
class _Aggregate:
    """A call as written, with its values over the rows at hand."""

    written: WrittenAggregate
    values: tuple[Expr, ...]
    order: tuple[Order, ...]
    only_if: Expr | None

    @property
    def name(self) -> str:
        return self.written.function

    def take(self, count: int, *, distinct: bool = True, order: bool = False) -> tuple[Expr, ...]:
        """The arguments, if there are as many as the function takes, and no clauses that it does not."""
        if len(self.values) != count:
            said = ("no arguments", "one argument", "two arguments")[count]
            raise Mistake(f'"{self.name}" takes {said}')
        if self.written.distinct and not distinct:
            raise Mistake(f'"{self.name}" does not take DISTINCT')
        if self.order and not order:
            raise Mistake(f'"{self.name}" does not depend on an order', "leave ORDER BY out")
        return self.values

    def make(
        self,
        function: AggregateFunction,
        argument: Expr | None,
        type_: Type,
        *,
        others: tuple[Expr, ...] = (),
        order: tuple[Order, ...] = (),
        option: Literal | None = None,
    ) -> AggregateCall:
        return AggregateCall("", function, argument, self.written.distinct, type_, others, order, option)

    def where(self, value: Expr) -> Expr:
        """The value for rows that FILTER keeps, else NULL."""
        return value if self.only_if is None else operators.case((self.only_if,), (value,), operators.UNKNOWN)

    def constant(self, place: int, what: str) -> Expr:
        value = self.values[place]
        while isinstance(value, Call) and value.function == "cast":
            value = value.arguments[0]
        if not isinstance(value, Literal):
            raise Mistake(f'the {what} of "{self.name}" must be a constant')
        return value

    def fraction(self, place: int) -> Literal:
        value = self.constant(place, "fraction")
        if isinstance(value, Call) or (isinstance(value, Literal) and isinstance(value.value, tuple)):
            raise NotMaintained(f"aggregate: {self.name} of several fractions")
        assert isinstance(value, Literal), f"not a constant: {value}"
        if not is_numeric(value.type) or value.value is None or not 0 <= float(str(value.value)) <= 1:
            raise Mistake(f'the fraction of "{self.name}" must be a number from 0 to 1')
        return Literal(float(str(value.value)), DOUBLE)


def _read_count(call: _Aggregate) -> AggregateCall:
    # Arrow cannot count values that have no type.
    values = [operators.convert(value, INT) if value.type == NULL else value for value in call.values]
    only_if, distinct = call.only_if, call.written.distinct
    if call.order:
        raise Mistake(f'"{call.name}" does not depend on an order', "leave ORDER BY out")
    if call.name == "count_if":
        (value,) = call.take(1, distinct=False)
        values, only_if = [], _both(only_if, operators.condition(value))
    elif not values and not isinstance(next(iter(call.written.arguments), None), exp.Star):
        raise Mistake('"count" takes values or "*"')
    if call.name == "approx_count_distinct":
        if len(values) > 1:
            raise Mistake(f'"{call.name}" takes one argument', _ACCURACY)
        distinct = True
    if distinct and len(values) > 1 and values[0] is not _ROW:
        for test in (calls.is_not_null(value) for value in values[1:] if not _is_constant(value)):
            only_if = _both(only_if, test)
    elif not distinct:
        # A constant is never NULL, and several arguments count when none is.
        present = [calls.is_not_null(value) for value in values if not _is_constant(value)]
        if len(values) > 1 or not present:
            for test in present:
                only_if = _both(only_if, test)
            values = []
    argument = None if not values and only_if is None else _where(only_if, values[0] if values else _ONE)
    return AggregateCall("", AggregateFunction.COUNT, argument, distinct, BIGINT, tuple(values[1:]))


def _is_constant(value: Expr) -> bool:
    return isinstance(value, Literal) and value.value is not None


def _both(left: Expr | None, right: Expr) -> Expr:
    return right if left is None else operators.connect("and", (left, right))


def _where(only_if: Expr | None, value: Expr) -> Expr:
    return value if only_if is None else operators.case((only_if,), (value,), operators.UNKNOWN)


def _read_sum(call: _Aggregate) -> AggregateCall:
    (value,) = call.take(1)
    function = AggregateFunction.SUM if call.name == "sum" else AggregateFunction.AVG
    value = _number(call, value)
    return call.make(function, call.where(value), (sum_type if call.name == "sum" else average_type)(value.type))


def _number(call: _Aggregate, value: Expr) -> Expr:
    value = operators.convert(value, DOUBLE) if value.type == NULL else value
    if value.type in INTERVALS:
        raise NotMaintained(f"aggregate: {call.name} of {value.type}")
    if not is_numeric(value.type):
        raise Mistake(f'"{call.name}" needs numbers, not {value.type}', "it needs an explicit CAST")
    return value


def _double(call: _Aggregate, value: Expr) -> Expr:
    return operators.cast(_number(call, value), DOUBLE)


def _extreme(function: AggregateFunction) -> Callable[[_Aggregate], AggregateCall]:
    def read(call: _Aggregate) -> AggregateCall:
        values = call.values[:1] if call.name in _CHOICES else call.take(1)
        if not values or len(call.values) > 2 or call.order:
            raise Mistake(f'"{call.name}" takes one argument, and no order', _by_order(call))
        value = operators.convert(values[0], DOUBLE) if values[0].type == NULL else values[0]
        return replace(call.make(function, call.where(value), value.type), distinct=False)

    return read


_CHOICES = ("any_value", "first", "first_value", "last", "last_value")


def _by_order(call: _Aggregate) -> str | None:
    return "min_by(x, y) is the x of the smallest y, max_by(x, y) that of the largest" if call.order else None


def _truth(function: AggregateFunction) -> Callable[[_Aggregate], AggregateCall]:
    def read(call: _Aggregate) -> AggregateCall:
        (value,) = call.take(1)
        return replace(call.make(function, call.where(operators.condition(value)), BOOLEAN), distinct=False)

    return read


def _spread(function: AggregateFunction) -> Callable[[_Aggregate], AggregateCall]:
    return lambda call: call.make(function, call.where(_double(call, call.take(1)[0])), DOUBLE)


def _relate(function: AggregateFunction) -> Callable[[_Aggregate], AggregateCall]:
    def read(call: _Aggregate) -> AggregateCall:
        one, other = (_double(call, value) for value in call.take(2))
        both = _where(calls.is_not_null(other), one)
        return call.make(function, call.where(both), DOUBLE, others=(other,))

    return read


def _choose_by(descending: bool) -> Callable[[_Aggregate], AggregateCall]:
    def read(call: _Aggregate) -> AggregateCall:
        value, by = call.take(2)
        if value.type == NULL:
            raise Mistake(f'the type of "{call.name}" is not known', "CAST(NULL AS ...)")
        by = operators.convert(by, DOUBLE) if by.type == NULL else by
        order = (Order(call.where(by), descending, nulls_first=not descending),)
        return replace(call.make(AggregateFunction.FIRST, value, value.type, order=order), distinct=False)

    return read


def _read_bits(call: _Aggregate) -> AggregateCall:
    (value,) = call.take(1)
    value = operators.convert(value, BIGINT) if value.type == NULL else value
    if value.type not in INTEGERS:
        raise Mistake(f'"{call.name}" needs integers, not {value.type}', "it needs an explicit CAST")
    return call.make(AggregateFunction(call.name), call.where(value), value.type)


def _read_mode(call: _Aggregate) -> AggregateCall:
    """The most frequent value; of several the first one in the order."""
    if call.written.within:
        call.take(0, distinct=False, order=True)
        value, order = _only_key(call)
    else:
        if len(call.values) == 2:
            call = replace(call, values=call.values[:1])  # whether ties have one answer: here they always have
        (value,) = call.take(1, distinct=False)
        order = ()
    value = operators.convert(value, DOUBLE) if value.type == NULL else value
    return call.make(AggregateFunction.MODE, call.where(value), value.type, order=_over(order, call.where(value)))


def _only_key(call: _Aggregate) -> tuple[Expr, tuple[Order, ...]]:
    if len(call.order) != 1:
        raise Mistake(f'"{call.name}" is of one value: WITHIN GROUP (ORDER BY x)')
    return call.order[0].expr, call.order


def _over(order: tuple[Order, ...], value: Expr) -> tuple[Order, ...]:
    """Ascending, values come in their own order."""
    return tuple(replace(key, expr=value) for key in order if key.descending)


def _read_percentile(call: _Aggregate) -> AggregateCall:
    """`percentile(x, p)`, `percentile_cont(p) WITHIN GROUP (ORDER BY x)`, `median(x)`, and what approximates them."""
    order: tuple[Order, ...] = ()
    if call.written.within and call.name in ("percentile_cont", "percentile_disc"):
        call.take(1, distinct=False, order=True)
        fraction = call.fraction(0)
        value, order = _only_key(call)
    elif call.name == "median":
        (value,), fraction = call.take(1), Literal(0.5, DOUBLE)
    elif call.name in ("percentile_cont", "percentile_disc"):
        raise Mistake(f'"{call.name}" needs WITHIN GROUP', f"{call.name}(0.5) WITHIN GROUP (ORDER BY x)")
    else:
        if call.name == "percentile" and len(call.values) == 3:
            raise NotMaintained("aggregate: percentile with frequencies")
        is_approximate = call.name != "percentile"
        call = replace(call, values=call.values[: 2 if is_approximate else None])
        value, fraction = call.take(2)[0], call.fraction(1)
    discrete = call.name in ("percentile_disc", "approx_percentile", "percentile_approx")
    function = AggregateFunction.PERCENTILE_DISC if discrete else AggregateFunction.PERCENTILE_CONT
    is_number = is_numeric(value.type) or value.type == NULL
    value = _number(call, value) if is_number or not discrete else value
    type_ = value.type if call.name.startswith("approx") or call.name.endswith("approx") or not is_number else DOUBLE
    return call.make(function, call.where(value), type_, order=_over(order, call.where(value)), option=fraction)


def _read_list(call: _Aggregate) -> AggregateCall:
    """Values in order; without one, ascending. NULLs are left out unless RESPECT NULLS is written."""
    (value,) = call.take(1, order=True)
    if value.type == NULL:
        raise Mistake(f'the type of "{call.name}" is not known', "CAST(NULL AS ...)")
    type_, keeps = Array(value.type), bool(call.written.nulls)
    counted = (call.where(TRUE),) if keeps else ()
    value = value if keeps else call.where(value)
    made = call.make(
        AggregateFunction.ARRAY_AGG, value, type_, others=counted, order=_sort_distinct(call, call.values[0], value)
    )
    return replace(made, distinct=made.distinct or call.name == "collect_set")


def _sort_distinct(call: _Aggregate, value: Expr, counted: Expr) -> tuple[Order, ...]:
    """The order; with DISTINCT it is of the value itself, since nothing else is left of rows."""
    if call.written.distinct or call.name == "collect_set":
        if any(isinstance(key.expr, Call) and key.expr.function in SORTING for key in call.order):
            hint = "order by the text: array_agg(DISTINCT x::text ORDER BY x::text)"
            raise NotMaintained(f"aggregate: {call.name} of different values in the order of their type", hint)
        if any(key.expr != value for key in call.order):
            raise Mistake(f'with DISTINCT "{call.name}" can be ordered by its argument only')
        return tuple(replace(key, expr=counted) for key in call.order[:1] if key.descending or not key.nulls_first)
    return tuple(key for key in call.order if not isinstance(key.expr, Literal))


def _read_text(call: _Aggregate) -> AggregateCall:
    values = call.values
    if not 1 <= len(values) <= 2:
        raise Mistake(f'"{call.name}" takes a text and a separator')
    value = operators.convert(values[0], STRING) if values[0].type == NULL else values[0]
    if value.type in INTEGERS or isinstance(value.type, Decimal):
        value = operators.cast(value, STRING)
    if value.type != STRING:
        raise Mistake(f'"{call.name}" needs text, not {value.type}', "it needs an explicit CAST")
    separator = Literal("," if call.name == "group_concat" else "", STRING)
    if len(values) == 2:
        written = call.constant(1, "separator")
        if not isinstance(written, Literal) or written.type not in (STRING, NULL):
            raise Mistake(f'the separator of "{call.name}" must be a text')
        separator = Literal(written.value or "", STRING)
    order = _sort_distinct(call, values[0], call.where(value))
    return call.make(AggregateFunction.STRING_AGG, call.where(value), STRING, order=order, option=separator)


_READERS: Mapping[str, Callable[[_Aggregate], AggregateCall]] = {
    **dict.fromkeys(("count", "count_if", "approx_count_distinct"), _read_count),
    **dict.fromkeys(("sum", "avg", "mean"), _read_sum),
    **dict.fromkeys(("min", "any_value", "first", "first_value"), _extreme(AggregateFunction.MIN)),
    **dict.fromkeys(("max", "last", "last_value"), _extreme(AggregateFunction.MAX)),
    **dict.fromkeys(("bool_and", "every"), _truth(AggregateFunction.MIN)),
    **dict.fromkeys(("bool_or", "some", "any"), _truth(AggregateFunction.MAX)),
    **dict.fromkeys(("var_samp", "variance"), _spread(AggregateFunction.VAR_SAMP)),
    **dict.fromkeys(("stddev", "stddev_samp", "std"), _spread(AggregateFunction.STDDEV_SAMP)),
    "var_pop": _spread(AggregateFunction.VAR_POP),
    "stddev_pop": _spread(AggregateFunction.STDDEV_POP),
    "skewness": _spread(AggregateFunction.SKEWNESS),
    "kurtosis": _spread(AggregateFunction.KURTOSIS),
    "covar_pop": _relate(AggregateFunction.COVAR_POP),
    "covar_samp": _relate(AggregateFunction.COVAR_SAMP),
    "corr": _relate(AggregateFunction.CORR),
    "min_by": _choose_by(descending=False),
    "max_by": _choose_by(descending=True),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), _read_bits),
    "mode": _read_mode,
    **dict.fromkeys(("median", "percentile", "percentile_cont", "percentile_disc"), _read_percentile),
    **dict.fromkeys(("approx_percentile", "percentile_approx"), _read_percentile),
    **dict.fromkeys(("array_agg", "collect_list", "collect_set"), _read_list),
    **dict.fromkeys(("string_agg", "listagg", "group_concat"), _read_text),
}

assert _READERS.keys() == MAINTAINED_AGGREGATES, "each aggregate that is maintained is read"
