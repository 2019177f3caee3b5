"""PIVOT and UNPIVOT, as the queries that they stand for.

    t PIVOT (sum(x) FOR c IN ('a'))     SELECT k, CASE WHEN count(*) FILTER (WHERE c <=> 'a') > 0
                                               THEN sum(x) FILTER (WHERE c <=> 'a') END AS a FROM t GROUP BY k
    t UNPIVOT (v FOR c IN (a, b))       SELECT k, c, v FROM t LATERAL VIEW stack(2, 'a', a, 'b', b) AS c, v
                                        WHERE v IS NOT NULL

A group without a row for a value has NULL there, also for counts, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from sqlglot import exp

from headrace.declare.query.environment import Environment, FromClause
from headrace.declare.query.known_functions import AGGREGATES
from headrace.declare.query.report import refuse
from headrace.declare.query.scope import fold

ReadItem = Callable[[exp.Expr], FromClause]


def write_pivots(node: exp.Expr, environment: Environment, read: ReadItem) -> exp.Expr:
    """An item of FROM without the PIVOT and UNPIVOT behind it. `read` tells the columns of an item."""
    pivots, joins, alias = node.args["pivots"], node.args.get("joins"), node.alias_or_name
    found = node.copy()
    found.set("pivots", None)
    found.set("joins", None)
    for pivot in pivots:
        columns = [column.name for column in read(found).scope.all()]
        query = _Pivot(pivot, columns, environment).write(found)
        named = pivot.args.get("alias")
        alias = alias if named is None else named.name
        table = exp.TableAlias(this=_quote(alias or "pivot"), columns=[] if named is None else named.columns)
        found = exp.Subquery(this=query, alias=table)
    found.set("joins", joins)
    return found


class _Pivot:
    def __init__(self, pivot: exp.Pivot, columns: Sequence[str], environment: Environment) -> None:
        self.pivot, self.columns, self.environment = pivot, columns, environment

    def write(self, item: exp.Expr) -> exp.Select:
        fields = self.pivot.args.get("fields") or []
        is_one = len(fields) == 1 and isinstance(fields[0], exp.In) and bool(fields[0].expressions)
        if not is_one:
            self._refuse("name the values: FOR c IN ('a', 'b')")
        (field,) = fields
        return self._unpivot(item, field) if self.pivot.args.get("unpivot") else self._pivot(item, field)

    def _refuse(self, hint: str) -> NoReturn:
        operator = "unpivot" if self.pivot.args.get("unpivot") else "pivot"
        refuse(operator, self.environment.at(self.pivot), hint)

    # PIVOT

    def _pivot(self, item: exp.Expr, field: exp.In) -> exp.Select:
        calls = self.pivot.expressions
        read = {fold(column.name) for part in (*calls, field.this) for column in part.find_all(exp.Column)}
        keys = [_column(name) for name in self.columns if fold(name) not in read]
        made = [
            exp.alias_(self._aggregate(call, _is_value(field.this, value)), name, quoted=True)
            for value in field.expressions
            for call in calls
            if (name := self._name(call, value, len(calls)))
        ]
        select = exp.Select(expressions=[*keys, *made], from_=exp.From(this=item))
        if keys:
            select.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        return select

    def _name(self, call: exp.Expr, value: exp.Expr, count: int) -> str:
        """Spark names a column by its value, and by the aggregate as well if there are several."""
        name = _name_value(value)
        if name is None:
            self._refuse("name the value: FOR (a, b) IN ((1, 2) AS both)")
        if count > 1 and not isinstance(call, exp.Alias):
            self._refuse("name each aggregate: PIVOT (sum(x) AS total, count(*) AS n FOR c IN (...))")
        return f"{name}_{call.alias}" if count > 1 else str(name)

    def _aggregate(self, call: exp.Expr, condition: exp.Expr) -> exp.Expr:
        """The aggregates of an expression over some of the rows; NULL without any."""
        body = call.this.copy() if isinstance(call, exp.Alias) else call.copy()
        body = body.transform(lambda node: self._filter(node, condition))
        some = _filtered(exp.Anonymous(this="count", expressions=[exp.Star()]), condition)
        there = exp.GT(this=some, expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=there, true=body)])

    def _filter(self, node: exp.Expr, condition: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter | exp.WithinGroup | exp.Window):
            self._refuse("write aggregates without OVER, WITHIN GROUP and FILTER")
        is_aggregate = isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES
        return _filtered(node, condition) if is_aggregate and not isinstance(node.parent, exp.Filter) else node

    # UNPIVOT

    def _unpivot(self, item: exp.Expr, field: exp.In) -> exp.Select:
        (values,) = self.pivot.expressions
        names = [part.name for part in _parts(values)]
        groups = [(_name_columns(one), _parts(_plain(one))) for one in field.expressions]
        if any(len(group) != len(names) for _, group in groups):
            self._refuse("give each entry of IN as many columns: UNPIVOT ((v, w) FOR c IN ((a, b), (c, d)))")
        taken = {fold(column.name) for _, group in groups for column in group}
        kept = [_column(name) for name in self.columns if fold(name) not in taken]
        rows = [part.copy() for name, group in groups for part in (exp.Literal.string(name), *group)]
        stack = exp.Anonymous(this="stack", expressions=[exp.Literal.number(len(groups)), *rows])
        made = [_quote(field.this.name), *map(_quote, names)]
        lateral = exp.Lateral(this=stack, view=True, alias=exp.TableAlias(this=_quote("unpivot"), columns=made))
        shown = (exp.Column(this=name.copy(), table=_quote("unpivot")) for name in made)
        select = exp.Select(expressions=[*kept, *shown], from_=exp.From(this=item), laterals=[lateral])
        if not self.pivot.args.get("include_nulls"):
            known = [
                exp.Not(this=exp.Is(this=exp.Column(this=_quote(name), table=_quote("unpivot")), expression=exp.Null()))
                for name in names
            ]
            select.set("where", exp.Where(this=exp.or_(*known, copy=False)))
        return select


def _filtered(call: exp.Expr, condition: exp.Expr) -> exp.Filter:
    return exp.Filter(this=call.copy(), expression=exp.Where(this=condition.copy()))


def _is_value(column: exp.Expr, value: exp.Expr) -> exp.Expr:
    """A condition that a column, or each of several, has a value."""
    pairs = zip(_parts(column), _parts(_plain(value)), strict=False)
    found = [exp.NullSafeEQ(this=one.copy(), expression=other.copy()) for one, other in pairs]
    return exp.and_(*found, copy=False)


def _plain(node: exp.Expr) -> exp.Expr:
    """What a name is given to."""
    return node.this if isinstance(node, exp.PivotAlias | exp.Alias) else node


def _parts(node: exp.Expr) -> list[exp.Expr]:
    inner = node.unnest() if isinstance(node, exp.Paren) else node
    return list(inner.expressions) if isinstance(inner, exp.Tuple) else [inner]


def _name_value(node: exp.Expr) -> str | None:
    """How Spark calls a column of a value; None of several values without a name."""
    if isinstance(node, exp.PivotAlias | exp.Alias):
        return str(node.alias)
    match node:
        case exp.Literal():
            return str(node.this)
        case exp.Neg():
            return f"-{node.this.name}"
        case exp.Null() | exp.Boolean():
            return node.sql().lower()
    return None


def _name_columns(node: exp.Expr) -> str:
    if isinstance(node, exp.PivotAlias | exp.Alias):
        alias = node.args["alias"]
        return str(alias.name if isinstance(alias, exp.Expr) else alias)
    return "_".join(part.name for part in _parts(node))


def _column(name: str) -> exp.Column:
    return exp.Column(this=_quote(name))


def _quote(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
