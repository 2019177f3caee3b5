"""GROUP BY: rows become groups, and every later expression is one over groups.

HAVING, SELECT and ORDER BY are read as if they stood over the rows; then whatever equals a key becomes that key. What
is left of the rows' columns is neither grouped nor aggregated: a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp

from headrace.declare.query import operators
from headrace.declare.query.aggregates import aggregates_in, read_aggregate
from headrace.declare.query.environment import Purpose
from headrace.declare.query.expressions import read_value
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.report import refuse
from headrace.declare.query.scope import same_name
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.declare.query.time_windows import is_time_window, open_window
from headrace.model.expr import Call, Column, Expr, columns_of
from headrace.model.relation import Aggregate, AggregateCall, AggregateFunction, Output, fields_of
from headrace.model.types import BOOLEAN, INTERVALS, NULL

_SETS = {exp.Rollup: "rollup", exp.Cube: "cube", exp.GroupingSets: "grouping sets"}


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """The keys by the expressions they stand for, and the fields that rows had before they were grouped."""

    keys: Mapping[Expr, Column]
    before: frozenset[str]

    def regrouped(self, expr: Expr, places: Mapping[str, exp.Expr]) -> Expr:
        key = self.keys.get(expr)
        if key is not None:
            return key
        if isinstance(expr, Call):
            return replace(expr, arguments=tuple(self.regrouped(argument, places) for argument in expr.arguments))
        if isinstance(expr, Column) and expr.name in self.before:
            name = expr.name.rpartition("/")[2]
            message = f'column "{name}" is neither grouped by nor aggregated'
            raise Mistake(message, "add it to GROUP BY, or take min or max of it", places.get(expr.name))
        return expr


def is_aggregated(select: exp.Select, stage: QueryStage) -> bool:
    """Whether a query has groups, if only one."""
    return bool(select.args.get("group") or select.args.get("having") or _aggregates(select, stage))


def _aggregates(select: exp.Select, stage: QueryStage) -> list[exp.Expr]:
    clauses = (select.args.get(name) for name in ("having", "qualify", "order"))
    return aggregates_in((*select.expressions, *filter(None, clauses)), stage)


def group(select: exp.Select, stage: QueryStage, purpose: Purpose) -> QueryStage:
    """The stage after GROUP BY, where the rows at hand are groups."""
    return _Grouper(select, stage, purpose).grouped()


@dataclass(slots=True)
class _Grouper:
    select: exp.Select
    stage: QueryStage
    purpose: Purpose

    def grouped(self) -> QueryStage:
        stage, keys = self.stage, list(self._keys())
        columns = {key.expr: Column(key.name, key.expr.type) for key in keys}
        calls, values = self._calls()
        correlated = tuple(self._correlation_keys(keys))
        before = frozenset(field.name for field in fields_of(stage.relation))
        relation = Aggregate(stage.relation, tuple(keys), tuple(calls))
        never_null = {key.name for key in keys if isinstance(key.expr, Column) and key.expr.name in stage.not_null}
        counts = {call.name for call in calls if call.function == AggregateFunction.COUNT}
        return replace(
            stage,
            clause="SELECT",
            relation=relation,
            values=values,
            grouping=GroupKeys(columns, before),
            not_null=frozenset(never_null | counts),
            correlated=correlated,
            places={},
        )

    def _keys(self) -> Iterator[Output]:
        group = self.select.args.get("group")
        if group is None:
            return
        for clause in ("grouping_sets", "cube", "rollup", "totals"):
            if group.args.get(clause):
                self.stage.environment.report.refuse(clause.replace("_", " "), self.stage.environment.at(group))
        nodes = self._plain_items() if group.args.get("all") is True else group.expressions
        if not nodes and not group.args.get("all"):
            self.stage.environment.error("GROUP BY needs at least one expression", self.select)
        seen: set[Expr] = set()
        for node in nodes:
            for key in self._read_key(node):
                if key.expr not in seen:
                    seen.add(key.expr)
                    yield key

    def _plain_items(self) -> list[exp.Expr]:
        """The items of GROUP BY ALL: what is selected without an aggregate."""
        items = [item.unalias() for item in self.select.expressions]
        return [item for item in items if not aggregates_in([item], self.stage)]

    def _read_key(self, node: exp.Expr) -> Iterator[Output]:
        kind = type(node)
        if kind in _SETS:
            self.stage.environment.report.refuse(_SETS[kind], self.stage.environment.at(node))
            return
        if isinstance(node, exp.Tuple):
            for part in node.expressions:
                yield from self._read_key(part)
            return
        with PlacedMistakes(self.stage, node):
            node, alias = self._meant(node.unnest())
            if isinstance(node, exp.Anonymous) and is_time_window(node):
                self.stage.window = open_window(node, self.stage)
                for bound in (self.stage.window.start, self.stage.window.end):
                    yield Output(bound.name, bound)
                return
            name = node.name if isinstance(node, exp.Column) else alias or self._alias_of(node)
            yield self._name_key(_check_key(read_value(node, self.stage)), name)

    def _meant(self, node: exp.Expr) -> tuple[exp.Expr, str | None]:
        """A key may name a column, an item of SELECT by its alias, or one by its position."""
        if isinstance(node, exp.Literal) and not node.is_string:
            return self._at(node).unalias(), None
        if isinstance(node, exp.Column) and not node.table and not self.stage.scope.find(node.name, None):
            for item in self.select.expressions:
                if isinstance(item, exp.Alias) and same_name(item.alias, node.name):
                    self._refuse_aggregate(item)
                    return item.this.unnest(), item.alias
        return node, None

    def _at(self, node: exp.Literal) -> exp.Expr:
        items = self.select.expressions
        if not node.name.isdigit() or not 1 <= int(node.name) <= len(items) or any(item.is_star for item in items):
            raise Mistake(f"GROUP BY {node.name}: there is no such item in SELECT")
        self._refuse_aggregate(items[int(node.name) - 1])
        item: exp.Expr = items[int(node.name) - 1]
        return item

    def _refuse_aggregate(self, item: exp.Expr) -> None:
        if aggregates_in([item], self.stage):
            raise Mistake("GROUP BY cannot name an aggregate")

    def _alias_of(self, node: exp.Expr) -> str | None:
        matching = (i.alias for i in self.select.expressions if isinstance(i, exp.Alias) and i.this.unnest() == node)
        return next(matching, None)

    def _name_key(self, expr: Expr, alias: str | None) -> Output:
        if isinstance(expr, Column):
            return Output(expr.name, expr)
        return Output(self._name(alias, "key"), expr)

    def _name(self, alias: str | None, otherwise: str) -> str:
        """A field's name, from the alias in SELECT if there is one. Dots would make it look like a table's column."""
        environment = self.stage.environment
        plain = None if alias is None else alias.replace(".", "_").replace("/", "_")
        return environment.books.fresh(f"{environment.output}{plain}" if plain else f"{environment.path}{otherwise}")

    def _calls(self) -> tuple[list[AggregateCall], dict[int, Expr]]:
        """All aggregates of the query, equal ones once, and which node means which."""
        calls: dict[object, AggregateCall] = {}
        values: dict[int, Expr] = {}
        for node in _aggregates(self.select, self.stage):
            with PlacedMistakes(self.stage, node):
                call = read_aggregate(node, self.stage, "")
                key = (call.function, call.argument, call.distinct)
                if key not in calls:
                    alias = node.parent.alias if isinstance(node.parent, exp.Alias) else None
                    calls[key] = replace(call, name=self._name(alias, call.function))
                values[id(node)] = Column(calls[key].name, call.type)
            values.setdefault(id(node), operators.UNKNOWN)
        return list(calls.values()), values

    def _correlation_keys(self, keys: list[Output]) -> Iterator[Expr]:
        """Conditions that name the query around must be equalities: their inner sides become keys, to join it by."""
        here = {field.name for field in fields_of(self.stage.relation)}
        if self.stage.correlated and not self.select.args.get("group") and self.purpose != Purpose.VALUE:
            self._refuse_correlation("an aggregate without GROUP BY has a row for every outer row")
        for part in self.stage.correlated:
            sides = _sides(part, here)
            if sides is None:
                self._refuse_correlation(None)
            inner, outer = sides
            key = next((key for key in keys if key.expr == inner), None)
            if key is None:
                key = self._name_key(inner, None)
                keys.append(key)
            yield Call("=", (Column(key.name, inner.type), outer), BOOLEAN)

    def _refuse_correlation(self, hint: str | None) -> NoReturn:
        environment = self.stage.environment
        refuse("correlated subquery", environment.books.outer_place or environment.at(self.select), hint)


def _check_key(key: Expr) -> Expr:
    if key.type in INTERVALS:
        raise NotMaintained("interval column")
    return operators.convert(key, BOOLEAN) if key.type == NULL else key


def _sides(part: Expr, own: set[str]) -> tuple[Expr, Expr] | None:
    """The inner and the outer side of an equality between the two queries."""
    if isinstance(part, Call) and part.function == "=":
        for inner, outer in (part.arguments, part.arguments[::-1]):
            if columns_of(inner) and columns_of(inner) <= own and not columns_of(outer) & own:
                return inner, outer
    return None
