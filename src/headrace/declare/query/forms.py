"""Expressions whose meaning depends on their parts alone: operators, predicates, CASE, CAST, and functions with a
syntax of their own.

Each reader gets a node of sqlglot's and a way to read its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from headrace.declare.query import calls, literals, operators
from headrace.declare.query.arguments import apply
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_nodes import FIFTEEN_DIGITS
from headrace.declare.query.spelling import refuse_part
from headrace.meaning.functions import FUNCTIONS
from headrace.model.expr import FALSE, TRUE, Expr, Literal
from headrace.model.type_names import type_named
from headrace.model.types import BINARY, BOOLEAN, NULL, STRING, Decimal, Type

ReadPart = Callable[[exp.Expr], Expr]
FormReader = Callable[[Any, ReadPart], Expr]
"""Reads nodes of the class that the table below gives it for."""


_PARTS: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Array: ("value_constructor", "bracket_notation"),
    exp.Bracket: ("offset", "safe", "returns_list_for_maps"),
    exp.Between: ("low", "high"),
    exp.Case: ("ifs", "default"),
    exp.Cast: ("to",),
    exp.Column: ("table", "db", "catalog"),
    exp.Concat: ("safe", "coalesce"),
    exp.DPipe: ("safe",),
    exp.Div: ("typed", "safe"),
    exp.If: ("true", "false"),
    exp.ILike: ("negate",),
    exp.In: ("query",),
    exp.Interval: ("unit",),
    exp.Like: ("negate",),
    exp.Literal: ("is_string",),
    exp.Overlay: ("from_", "for_"),
    exp.Ordered: ("desc", "nulls_first"),
    exp.StrPosition: ("substr",),
    exp.Substring: ("start", "length"),
    exp.Trim: ("position",),
    exp.TryCast: ("to", "safe"),
    exp.Window: ("partition_by", "order", "over", "spec", "alias"),
}
"""What nodes are made of besides `this`, `expression` and `expressions`."""


def check_parts(node: exp.Expr) -> None:
    """Refuse what is written in a node beyond the parts that its reader knows: nothing is ignored silently."""
    known = ("this", "expression", "expressions", *_PARTS.get(type(node), ()))
    for key, value in node.args.items():
        if value and key not in known:
            raise refuse_part(node, key)


def operands(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a chain of one operator, in order, however long the chain is."""
    kind = type(node)
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        current = waiting.pop().unnest()
        if type(current) is kind:
            waiting += [current.expression, current.this]
        else:
            found.append(current)
    return found


def is_query(node: exp.Any | exp.All) -> bool:
    """Whether ANY or ALL is of the rows of a query."""
    return isinstance(node.this.unnest(), exp.Query)


def _all(nodes: Sequence[exp.Expr | None], value: ReadPart) -> tuple[Expr, ...]:
    return tuple(value(node) for node in nodes if node is not None)


def _literal(node: exp.Literal, value: ReadPart) -> Expr:
    return Literal(node.name, STRING) if node.is_string else literals.number(node.name)


def _bytes(node: exp.HexString, value: ReadPart) -> Expr:
    try:
        return Literal(bytes.fromhex(node.name), BINARY)
    except ValueError:
        raise Mistake(f'"{node.name}" is not a text of hexadecimal digits') from None


def _negative(node: exp.Neg, value: ReadPart) -> Expr:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return literals.number(f"-{node.this.name}")
    return operators.minus(value(node.this))


def _read_connective(operator: str) -> FormReader:
    return lambda node, value: operators.connect(operator, _all(operands(node), value))


def _read_comparison(operator: str) -> FormReader:
    def reader(node: exp.Binary, value: ReadPart) -> Expr:
        if isinstance(node.expression, exp.Any | exp.All):
            raise NotMaintained("expression: ANY or ALL", "compare with a query, or use IN (...)")
        return operators.compare(operator, value(node.this), value(node.expression))

    return reader


def _different(node: exp.NullSafeNEQ, value: ReadPart) -> Expr:
    return operators.negate_condition(operators.compare("<=>", value(node.this), value(node.expression)))


def _read_calculation(operator: str) -> FormReader:
    def reader(node: exp.Binary, value: ReadPart) -> Expr:
        in_days = literals.counts_days(node.this) or literals.counts_days(node.expression)
        return operators.arithmetic(operator, value(node.this), value(node.expression), in_days=in_days)

    return reader


def _read_bits(operator: str) -> FormReader:
    return lambda node, value: calls.function(operator, (value(node.this), value(node.expression)), {})


def _between(node: exp.Between, value: ReadPart) -> Expr:
    middle, low, high = _all((node.this, node.args["low"], node.args["high"]), value)
    return operators.connect("and", (operators.compare(">=", middle, low), operators.compare("<=", middle, high)))


def in_list(node: exp.In, value: ReadPart) -> Expr:
    """`x IN (1, 2)`, `(x, y) IN ((1, 2), (3, 4))`."""
    if not node.expressions:
        raise Mistake("IN needs at least one value")
    if isinstance(node.this, exp.Tuple):
        return operators.connect("or", [_equal_tuples(node.this, option, value) for option in node.expressions])
    return operators.call("in", operators.unify(_all((node.this, *node.expressions), value), compared=True), BOOLEAN)


def _equal_tuples(left: exp.Tuple, right: exp.Expr, value: ReadPart) -> Expr:
    if not isinstance(right, exp.Tuple) or len(left.expressions) != len(right.expressions):
        raise Mistake(f"IN compares {len(left.expressions)} values with another number of values")
    pairs = zip(left.expressions, right.expressions, strict=True)
    return operators.connect("and", [operators.compare("=", value(a), value(b)) for a, b in pairs])


def _is(node: exp.Is, value: ReadPart) -> Expr:
    tested = value(node.this)
    match node.expression:
        case exp.Null():
            return calls.is_null(tested)
        case exp.Boolean(this=expected):
            return operators.compare("<=>", operators.condition(tested), TRUE if expected else FALSE)
    raise Mistake("IS is followed by NULL, TRUE or FALSE")


def _like(node: exp.Binary, value: ReadPart, *escape: Expr) -> Expr:
    if isinstance(node.expression, exp.Any | exp.All):
        return _like_several(node, node.expression, value)
    return _like_one(node, value(node.this), value(node.expression), *escape)


def _like_one(node: exp.Binary, text: Expr, pattern: Expr, *escape: Expr) -> Expr:
    if isinstance(node, exp.ILike):
        result = calls.ilike(text, pattern)
    else:
        result = apply(FUNCTIONS["like"], (text, pattern, *escape))
    return operators.negate_condition(result) if node.args.get("negate") else result


def _like_several(node: exp.Binary, several: exp.Any | exp.All, value: ReadPart) -> Expr:
    """`x LIKE ANY ('a%', 'b%')`. NOT is said of each pattern: `NOT LIKE ANY` holds if one does not match."""
    patterns = several.this.expressions if isinstance(several.this, exp.Tuple) else [several.this.unnest()]
    if any(isinstance(pattern, exp.Query) for pattern in patterns):
        raise NotMaintained("expression: LIKE ANY or ALL", "combine several LIKE with OR or AND")
    text = value(node.this)
    tests = [_like_one(node, text, value(pattern)) for pattern in patterns]
    return operators.connect("or" if isinstance(several, exp.Any) else "and", tests)


def _escape_pattern(node: exp.Escape, value: ReadPart) -> Expr:
    if not isinstance(node.this, exp.Like):
        raise NotMaintained("expression: escape")
    check_parts(node.this)
    return _like(node.this, value, value(node.expression))


def _case(node: exp.Case, value: ReadPart) -> Expr:
    branches, default = node.args["ifs"], node.args.get("default")
    conditions = _all([branch.this for branch in branches], value)
    if node.this is not None:
        chosen = value(node.this)
        conditions = tuple(operators.compare("=", chosen, option) for option in conditions)
    results = _all([branch.args["true"] for branch in branches], value)
    return operators.case(conditions, results, operators.UNKNOWN if default is None else value(default))


def _cast(node: exp.Cast, value: ReadPart) -> Expr:
    type_ = _type(node.args["to"])
    if type_ == Decimal(38, 18) and _keeps_15_digits(node.this):
        return apply(FUNCTIONS["decimal15"], (value(node.this.expressions[0]),))
    source = value(node.this)
    result = operators.cast(source, type_)
    if isinstance(source, Literal) and source.type == STRING and not isinstance(result, Literal):
        raise Mistake(f"{operators.show_constant(source)} is not a value of type {type_}")
    return result


def _keeps_15_digits(node: exp.Expr) -> bool:
    """`format_number(x, '0.00000000000000E0')`, which `convert` writes; other patterns of text are not read."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "format_number" or len(node.expressions) != 2:
        return False
    pattern = node.expressions[1]
    return isinstance(pattern, exp.Literal) and pattern.is_string and pattern.name == FIFTEEN_DIGITS


_LOST = (exp.DType.TIME, exp.DType.TIMETZ, exp.DType.MONEY, exp.DType.BIT)
"""Types that sqlglot writes as others for Spark."""


def _type(node: exp.Expr) -> Type:
    lost = next((part for part in node.find_all(exp.DataType) if part.this in _LOST), None)
    if lost is not None:
        raise NotMaintained(f"expression: cast to {lost.this.value.lower()}")
    name = node.sql(dialect="spark").lower()
    type_ = type_named(name)
    if type_ is None:
        if name.startswith(("array", "decimal")) or not isinstance(node, exp.DataType):
            raise Mistake(f'"{name}" is not a type')
        raise NotMaintained(f"expression: cast to {name.partition('<')[0]}")
    return type_


def _substring(node: exp.Substring, value: ReadPart) -> Expr:
    return apply(FUNCTIONS["substring"], _all((node.this, node.args.get("start"), node.args.get("length")), value))


def _trim(node: exp.Trim, value: ReadPart) -> Expr:
    side = str(node.args.get("position") or "").upper()
    if node.args.get("expression"):
        name = {"LEADING": "trim_leading", "TRAILING": "trim_trailing"}.get(side, "trim_both")
        return apply(FUNCTIONS[name], (value(node.this), value(node.expression)))
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim")
    return apply(FUNCTIONS[name], (value(node.this),))


def _position(node: exp.StrPosition, value: ReadPart) -> Expr:
    return apply(FUNCTIONS["locate"], (value(node.args["substr"]), value(node.this)))


def _element(node: exp.Bracket, value: ReadPart) -> Expr:
    """`x[0]`: places count from 0 here, also those that PostgreSQL counts from 1."""
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        raise NotMaintained("expression: array slice", "use slice(array, start, length)")
    return calls.element(value(node.this), value(node.expressions[0]))


FORMS: Mapping[type[exp.Expr], FormReader] = {
    exp.Literal: _literal,
    exp.RawString: lambda node, value: Literal(node.name, STRING),
    exp.HexString: _bytes,
    exp.Boolean: lambda node, value: TRUE if node.this else FALSE,
    exp.Null: lambda node, value: Literal(None, NULL),
    exp.Paren: lambda node, value: value(node.this),
    exp.Interval: lambda node, value: literals.interval(node),
    exp.Neg: _negative,
    exp.Not: lambda node, value: operators.negate_condition(value(node.this)),
    exp.And: _read_connective("and"),
    exp.Or: _read_connective("or"),
    exp.EQ: _read_comparison("="),
    exp.NEQ: _read_comparison("<>"),
    exp.LT: _read_comparison("<"),
    exp.LTE: _read_comparison("<="),
    exp.GT: _read_comparison(">"),
    exp.GTE: _read_comparison(">="),
    exp.NullSafeEQ: _read_comparison("<=>"),
    exp.NullSafeNEQ: _different,
    exp.Add: _read_calculation("+"),
    exp.Sub: _read_calculation("-"),
    exp.Mul: _read_calculation("*"),
    exp.Div: _read_calculation("/"),
    exp.IntDiv: _read_calculation("div"),
    exp.Mod: _read_calculation("%"),
    exp.Concat: lambda node, value: calls.concat(*_all(node.expressions, value)),  # 'a' 'b'
    exp.DPipe: lambda node, value: calls.concat(*_all(operands(node), value)),
    exp.Between: _between,
    exp.Is: _is,
    exp.Like: _like,
    exp.ILike: _like,
    exp.RegexpLike: lambda node, value: apply(FUNCTIONS["rlike"], (value(node.this), value(node.expression))),
    exp.Escape: _escape_pattern,
    exp.Case: _case,
    exp.If: lambda node, value: calls.function(
        "if", _all((node.this, node.args["true"], node.args.get("false")), value), {}
    ),
    exp.Cast: _cast,
    exp.TryCast: lambda node, value: calls.try_cast(value(node.this), _type(node.args["to"])),
    exp.BitwiseAnd: _read_bits("&"),
    exp.BitwiseOr: _read_bits("|"),
    exp.BitwiseXor: _read_bits("^"),
    exp.BitwiseLeftShift: _read_bits("shiftleft"),
    exp.BitwiseRightShift: _read_bits("shiftright"),
    exp.Overlay: lambda node, value: apply(
        FUNCTIONS["overlay"], _all((node.this, node.expression, node.args["from_"], node.args.get("for_")), value)
    ),
    exp.BitwiseNot: lambda node, value: apply(FUNCTIONS["~"], (value(node.this),)),
    exp.Array: lambda node, value: calls.function("array", _all(node.expressions, value), {}),
    exp.Bracket: _element,
    exp.Extract: lambda node, value: calls.date_part(node.this.name, value(node.expression)),
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.StrPosition: _position,
    exp.CurrentDate: lambda node, value: calls.TODAY,
    exp.CurrentTimestamp: lambda node, value: calls.NOW,
}
