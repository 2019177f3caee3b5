"""Relations as indented text and expressions in a notation close to SQL, for people: golden files, `headrace check -v`,
messages.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable

from headrace.model.expr import TRUE, Call, Column, Expr, Literal
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Frame,
    Join,
    Matching,
    Negate,
    Order,
    Output,
    Over,
    PlaceCall,
    Projection,
    RangeEdge,
    Ranking,
    Relation,
    RowEdge,
    Scan,
    Sessions,
    Stamped,
    TopK,
    Unfold,
    UnionAll,
    Version,
    WindowCall,
    Windows,
    inputs_of,
)
from headrace.model.types import STRING, YEAR_MONTH

_PRECEDENCE = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>", "in", "like", "is_null"), 4),
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "div": 6,
    "%": 6,
    "negate": 7,
}
_ATOM = 8
_MILLISECONDS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))


def show(relation: Relation) -> str:
    """One operator a line, its inputs below it, indented. Ends without a line break."""
    return "\n".join(_relation_lines(relation))


def _relation_lines(relation: Relation) -> Iterable[str]:
    yield _line(relation)
    for input_ in inputs_of(relation):
        yield from (f"  {line}" for line in _relation_lines(input_))


def _line(relation: Relation) -> str:
    match relation:
        case Scan():
            return _scan(relation)
        case Filter(_, predicate):
            return f"filter {show_expr(predicate)}"
        case Projection(_, outputs):
            return f"project {_outputs(outputs)}"
        case Join(kind, _, _, on):
            return f"join {kind.value}" + ("" if on == TRUE else f" on {show_expr(on)}")
        case UnionAll():
            return "union all"
        case Distinct():
            return "distinct"
        case Aggregate(_, keys, calls):
            by = f" by {_outputs(keys)}" if keys else ""
            return f"aggregate{by}" + (f": {', '.join(map(_aggregate, calls))}" if calls else "")
        case Windows():
            return _windows(relation)
        case Sessions():
            return _sessions(relation)
        case Unfold() | Stamped():
            return _repeated(relation)
        case TopK():
            return _top(relation)
        case Over():
            return _over(relation)
        case Negate():
            return "negate"
        case Matching(_, _, keys, on):
            pairs = ", ".join(f"{show_expr(a)} <=> {show_expr(b)}" for a, b in keys)
            return f"matching {pairs}".rstrip() + ("" if on == TRUE else f" on {show_expr(on)}")


def _repeated(relation: Unfold | Stamped) -> str:
    if isinstance(relation, Stamped):
        return f"changes with {relation.time}" + (" from the beginning" if relation.from_beginning else "")
    numbered = "" if relation.place is None else f" with {relation.place}"
    return f"unfold{' outer' if relation.outer else ''} {', '.join(relation.columns)}{numbered}"


def _scan(scan: Scan) -> str:
    alias = "" if scan.alias == scan.source else f" as {scan.alias}"
    version = "" if scan.version == Version.NOW else f" ({scan.version.value})"
    return f"scan {scan.source}{alias}{version}"


def _outputs(outputs: Iterable[Output]) -> str:
    return ", ".join(
        output.name
        if output.expr == Column(output.name, output.expr.type)
        else f"{output.name} = {show_expr(output.expr)}"
        for output in outputs
    )


def _aggregate(call: AggregateCall) -> str:
    return f"{call.name} = {write_call(call, show_expr)}"


def write_call(call: AggregateCall, write: Callable[[Expr], str]) -> str:
    """`sum(distinct x)`, `string_agg(x, ', ' order by y desc)`, with expressions as `write` writes them."""
    arguments = ["*"] if call.argument is None else [write(call.argument)]
    arguments += map(write, call.others)
    arguments += [] if call.option is None else [write(call.option)]
    order = ", ".join(_order(key, write) for key in call.order)
    inside = f"{'distinct ' if call.distinct else ''}{', '.join(arguments)}{f' order by {order}' if order else ''}"
    return f"{call.function.value}({inside})"


def _windows(windows: Windows) -> str:
    slide = "" if windows.slide_ms == windows.size_ms else f" every {_length(windows.slide_ms)}"
    offset = f" from {_length(windows.offset_ms)}" if windows.offset_ms else ""
    by = f"by {show_expr(windows.time)}: {windows.start}, {windows.end}"
    return f"windows of {_length(windows.size_ms)}{slide}{offset} {by}"


def _sessions(sessions: Sessions) -> str:
    of = f" of {', '.join(map(show_expr, sessions.partition))}" if sessions.partition else ""
    by = f"by {show_expr(sessions.time)}: {sessions.start}, {sessions.end}"
    return f"sessions{of} with gaps of {_length(sessions.gap_ms)} {by}"


def _length(milliseconds: int) -> str:
    unit, size = next((unit, size) for unit, size in _MILLISECONDS if milliseconds % size == 0)
    return f"{milliseconds // size} {unit}"


def _top(top: TopK) -> str:
    ranking = "" if top.ranking == Ranking.ROW_NUMBER else f" {top.ranking.value}"
    by = f" by {', '.join(map(show_expr, top.partition))}" if top.partition else ""
    offset = f" after {top.offset}" if top.offset else ""
    rank = f" rank {top.rank_name}" if top.rank_name else ""
    order = f" order {', '.join(_order(key, show_expr) for key in top.order)}" if top.order else ""
    return f"top {top.limit}{offset}{ranking}{by}{order}{rank}"


def _over(over: Over) -> str:
    by = f" by {', '.join(map(show_expr, over.partition))}" if over.partition else ""
    order = f" order {', '.join(_order(key, show_expr) for key in over.order)}" if over.order else ""
    calls = ", ".join(f"{call.name} = {write_window_call(call, show_expr)}" for call in over.calls)
    return f"over{by}{order}: {calls}"


def write_window_call(call: WindowCall, write: Callable[[Expr], str]) -> str:
    """`lag(x, 1)`, `sum(x) rows between 2 preceding and current row`, with expressions as `write` writes them."""
    compute = call.compute
    if isinstance(compute, PlaceCall):
        has_count = compute.function.value in ("lag", "lead", "ntile", "nth_value")
        first, others = compute.arguments[:1], compute.arguments[1:]
        inside = (*map(write, first), *((str(compute.count),) if has_count else ()), *map(write, others))
        text = f"{compute.function.value}({', '.join(inside)}){' ignore nulls' if compute.skips_nulls else ''}"
    else:
        text = write_call(compute, write)
    return text if call.frame == Frame() else f"{text} {write_frame(call.frame, write)}"


def write_frame(frame: Frame, write: Callable[[Expr], str]) -> str:
    """`rows between 2 preceding and current row`."""
    start = "unbounded preceding" if frame.start is None else _edge(frame.start, write)
    end = "unbounded following" if frame.end is None else _edge(frame.end, write)
    return f"{frame.unit.value} between {start} and {end}"


def _edge(edge: RowEdge | RangeEdge, write: Callable[[Expr], str]) -> str:
    if isinstance(edge, RangeEdge):
        return f"{write(edge.offset)} {'preceding' if edge.precedes else 'following'}"
    if not edge.rows:
        return "current row"
    return f"{abs(edge.rows)} {'preceding' if edge.rows < 0 else 'following'}"


def _order(order: Order, write: Callable[[Expr], str]) -> str:
    nulls = "" if order.nulls_first != order.descending else " nulls first" if order.nulls_first else " nulls last"
    return f"{write(order.expr)}{' desc' if order.descending else ''}{nulls}"


def show_expr(expr: Expr) -> str:
    """An expression on one line."""
    return _write_expression(expr, 0)


def _write_expression(expr: Expr, around: int) -> str:
    match expr:
        case Column(name):
            return name
        case Literal():
            return _literal(expr)
        case Call(function, _):
            own = _PRECEDENCE.get(function, _ATOM)
            return f"({_call(expr, own)})" if own < around else _call(expr, own)


def _call(call: Call, own: int) -> str:
    arguments = call.arguments
    match call.function:
        case "and" | "or":
            return f" {call.function} ".join(_write_expression(argument, own + 1) for argument in arguments)
        case "not" if isinstance(arguments[0], Call) and arguments[0].function == "is_null":
            return f"{_write_expression(arguments[0].arguments[0], own + 2)} is not null"
        case "not":
            return f"not {_write_expression(arguments[0], own)}"
        case "is_null":
            return f"{_write_expression(arguments[0], own + 1)} is null"
        case "negate":
            return f"-{_write_expression(arguments[0], own + 1)}"
        case "cast":
            return f"cast({show_expr(arguments[0])} as {call.type})"
        case "case":
            return _case(arguments)
        case "in":
            return f"{_write_expression(arguments[0], own + 1)} in ({', '.join(map(show_expr, arguments[1:]))})"
        case function if function in _PRECEDENCE and len(arguments) == 2:
            chains = own > _PRECEDENCE["="]  # a - b - c is (a - b) - c, but a = b = c needs parentheses
            left = _write_expression(arguments[0], own if chains else own + 1)
            return f"{left} {function} {_write_expression(arguments[1], own + 1)}"
    return f"{call.function}({', '.join(map(show_expr, arguments))})"


def _case(arguments: tuple[Expr, ...]) -> str:
    pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
    branches = " ".join(f"when {show_expr(condition)} then {show_expr(value)}" for condition, value in pairs)
    last = arguments[-1]
    default = "" if isinstance(last, Literal) and last.value is None else f" else {show_expr(last)}"
    return f"case {branches}{default} end"


def _literal(literal: Literal) -> str:
    value = literal.value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if literal.type == STRING:
        return "'" + str(value).replace("'", "''") + "'"
    if isinstance(value, dt.date):
        return f"{literal.type} '{value}'"
    if isinstance(value, dt.timedelta):
        return f"interval '{value.days} days'" if not value % dt.timedelta(days=1) else f"interval '{value}'"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return f"interval '{value} months'" if literal.type == YEAR_MONTH else str(value)
