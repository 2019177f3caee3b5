"""Aggregates of a regression line, as the sums of powers that they are made of.

    regr_sxx(y, x)          var_pop(x) * count, of rows in which neither is NULL
    regr_slope(y, x)        covar_pop(y, x) / var_pop(x)
    regr_intercept(y, x)    avg(y) - slope * avg(x)
    regr_r2(y, x)           corr(y, x) squared; 1 if only x varies

So a change costs one group, and nothing is rounded before the sums are complete (`meaning.moments`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp


def write_regressions(tree: exp.Query) -> exp.Query:
    """The query with other aggregates in place of these. Calls with OVER or DISTINCT stay, and are refused."""
    if not any(map(_is_regression, tree.find_all(exp.Anonymous))):
        return tree
    written = tree.transform(_write)
    assert isinstance(written, exp.Query), "it stays a query"
    return written


def _is_regression(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in _WRITTEN and len(node.expressions) == 2


def _write(node: exp.Expr) -> exp.Expr:
    call = node.this if isinstance(node, exp.Filter) else node
    if not _is_regression(call) or isinstance(node.parent, exp.Filter | exp.Window):
        return node
    if isinstance(call.expressions[0], exp.Distinct):
        return node
    where = node.expression if isinstance(node, exp.Filter) else None
    y, x = call.expressions
    written = _WRITTEN[call.name.lower()](_Pairs(y, x, where))
    return exp.alias_(written, call.name.lower(), quoted=True) if isinstance(node.parent, exp.Select) else written


class _Pairs:
    """Rows in which neither of two values is NULL."""

    def __init__(self, y: exp.Expr, x: exp.Expr, where: exp.Expr | None) -> None:
        self.y, self.x, self.where = y, x, where

    def count(self) -> exp.Expr:
        return self._call("count", exp.Case(ifs=[exp.If(this=_known(self.y), true=_known_or_null(self.x))]))

    def average(self, one: exp.Expr, other: exp.Expr) -> exp.Expr:
        return self._call("avg", _double(_if_known(other, one)))

    def variance(self, one: exp.Expr, other: exp.Expr) -> exp.Expr:
        return self._call("var_pop", _if_known(other, one))

    def covariance(self) -> exp.Expr:
        return self._call("covar_pop", self.y.copy(), self.x.copy())

    def correlation(self) -> exp.Expr:
        return self._call("corr", self.y.copy(), self.x.copy())

    def slope(self) -> exp.Expr:
        return _divide(self.covariance(), self.variance(self.x, self.y))

    def _call(self, function: str, *arguments: exp.Expr) -> exp.Expr:
        call = exp.Anonymous(this=function, expressions=list(arguments))
        return call if self.where is None else exp.Filter(this=call, expression=self.where.copy())


def _known(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.Null()))


def _known_or_null(value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=_known(value), true=exp.Literal.number(1))])


def _if_known(other: exp.Expr, one: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=_known(other), true=one.copy())])


def _double(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build("double"))


def _multiply(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.Mul(this=one, expression=other)


def _divide(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    """NULL where the divisor is zero."""
    none = exp.Anonymous(this="nullif", expressions=[other, _double(exp.Literal.number(0))])
    return exp.Div(this=one, expression=none, typed=False, safe=False)


def _determination(pairs: _Pairs) -> exp.Expr:
    is_level = exp.EQ(this=pairs.variance(pairs.y, pairs.x), expression=_double(exp.Literal.number(0)))
    varies = exp.GT(this=pairs.variance(pairs.x, pairs.y), expression=_double(exp.Literal.number(0)))
    square = _multiply(pairs.correlation(), pairs.correlation())
    one = _double(exp.Literal.number(1))
    return exp.Case(ifs=[exp.If(this=exp.And(this=is_level, expression=varies), true=one)], default=square)


def _intercept(pairs: _Pairs) -> exp.Expr:
    line = _multiply(pairs.slope(), pairs.average(pairs.x, pairs.y))
    return exp.Paren(this=exp.Sub(this=pairs.average(pairs.y, pairs.x), expression=line))


_WRITTEN: Mapping[str, Callable[[_Pairs], exp.Expr]] = {
    "regr_count": lambda pairs: pairs.count(),
    "regr_avgx": lambda pairs: pairs.average(pairs.x, pairs.y),
    "regr_avgy": lambda pairs: pairs.average(pairs.y, pairs.x),
    "regr_sxx": lambda pairs: _multiply(pairs.variance(pairs.x, pairs.y), pairs.count()),
    "regr_syy": lambda pairs: _multiply(pairs.variance(pairs.y, pairs.x), pairs.count()),
    "regr_sxy": lambda pairs: _multiply(pairs.covariance(), pairs.count()),
    "regr_slope": lambda pairs: pairs.slope(),
    "regr_intercept": _intercept,
    "regr_r2": _determination,
}
