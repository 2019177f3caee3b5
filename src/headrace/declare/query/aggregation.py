"""GROUP BY: rows become groups, and every later expression is one over groups.

HAVING, SELECT and ORDER BY are read as if they stood over the rows; then whatever equals a key becomes that key. What
is left of the rows' columns is neither grouped nor aggregated: a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NoReturn

from sqlglot import exp

from headrace.declare.query import operators
from headrace.declare.query.aggregate_syntax import called_function
from headrace.declare.query.aggregates import aggregates_in, read_aggregate
from headrace.declare.query.correlation import split_condition
from headrace.declare.query.environment import Purpose
from headrace.declare.query.expressions import read_value
from headrace.declare.query.grouping_sets import GroupingMark, group_by_sets, written_sets
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.declare.query.postgres_spans import refuse_sorting, refuse_span_column
from headrace.declare.query.report import refuse
from headrace.declare.query.scope import fold, same_name
from headrace.declare.query.span_aggregates import join_results, split_call
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.declare.query.tables import find_key
from headrace.declare.query.time_windows import close_sessions, is_time_window, open_window
from headrace.model.dialect import SqlDialect
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.origin_types import OriginType
from headrace.model.relation import Aggregate, AggregateCall, AggregateFunction, Output, Relation, fields_of, scans_of
from headrace.model.types import BIGINT, BOOLEAN, INT, INTERVALS, NULL, STRING, TINYINT, Decimal

_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


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
    windows = select.args.get("windows") or ()
    return aggregates_in((*select.expressions, *filter(None, clauses), *windows), stage)


def group(select: exp.Select, stage: QueryStage, purpose: Purpose) -> QueryStage:
    """The stage after GROUP BY, where the rows at hand are groups."""
    return _Grouper(select, stage, purpose).grouped()


@dataclass(slots=True)
class _Grouper:
    select: exp.Select
    stage: QueryStage
    purpose: Purpose
    shown: dict[Expr, AggregateCall] = field(default_factory=dict)

    def grouped(self) -> QueryStage:
        stage, (keys, sets) = self.stage, self._read_keys()
        if sets is not None and stage.window is not None and stage.window.session is not None:
            refuse("session window in grouping sets", stage.environment.at(self.select.args["group"]))
        close_sessions(stage, [key.expr for key in keys])
        if sets is None:
            keys.extend(self._dependent_keys(keys))
        columns = {key.expr: Column(key.name, key.expr.type) for key in keys}
        columns |= {expr: Column(call.name, call.type) for expr, call in self.shown.items()}
        marks, values = self._marks(keys, sets is not None)
        calls, values = self._calls(values)
        calls.extend(self.shown.values())
        correlated = tuple(self._correlation_keys(keys, sets is not None))
        before = frozenset(field.name for field in fields_of(stage.relation))
        if sets is None:
            relation: Relation = Aggregate(stage.relation, tuple(keys), tuple(calls))
        else:
            named = {key.name: key.expr for key in keys}
            in_postgres = stage.environment.text.dialect is SqlDialect.POSTGRES
            relation = group_by_sets(stage.relation, named, sets, tuple(calls), marks, over_nothing=in_postgres)
        always = frozenset(key.name for key in keys).intersection(*(sets or ()))
        never_null = {key.name for key in keys if key.name in always}
        never_null &= {key.name for key in keys if isinstance(key.expr, Column) and key.expr.name in stage.not_null}
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

    def _read_keys(self) -> tuple[list[Output], list[frozenset[str]] | None]:
        """The keys and, of GROUPING SETS, ROLLUP and CUBE, the names of those in each set."""
        group = self.select.args.get("group")
        if group is None:
            return [], None
        written = None
        with PlacedMistakes(self.stage, group):
            written = written_sets(group)
        if written is None:
            return list(self._keys(group)), None
        keys, names = dict[Expr, Output](), dict[exp.Expr, tuple[str, ...]]()
        nodes = [*group.expressions, *chain.from_iterable(written)]
        for node in (one for one in nodes if not isinstance(one, _SETS) and one not in names):
            read = [keys.setdefault(key.expr, key) for key in self._read_key(node)]
            names[node] = tuple(key.name for key in read)
        sets = [frozenset(chain.from_iterable(names[node] for node in one)) for one in written]
        # sqlglot keeps ALL and DISTINCT as one flag: False is GROUP BY DISTINCT, in which equal sets count once.
        return list(keys.values()), list(dict.fromkeys(sets)) if group.args.get("all") is False else sets

    def _keys(self, group: exp.Group) -> Iterator[Output]:
        nodes = group.expressions
        if group.args.get("all") is True and not nodes:
            nodes = self._plain_items()
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

    def _dependent_keys(self, keys: list[Output]) -> list[Output]:
        """Columns that the query names of tables whose whole key is grouped by: each group has one value of them, and
        PostgreSQL takes them as they are.
        """
        environment = self.stage.environment
        if environment.text.dialect is not SqlDialect.POSTGRES:
            return []
        known = {str(key.expr) for key in keys}
        fields = {field.name: field.type for field in fields_of(self.stage.relation)}
        named = {fold(column.name) for column in self.select.find_all(exp.Column)}
        found: list[Output] = []
        for scan in scans_of(self.stage.relation):
            key = find_key(scan, environment)
            if key and key <= known:
                names = (f"{scan.alias}.{column}" for column in scan.columns if fold(column) in named)
                found += [Output(name, Column(name, fields[name])) for name in names if {name} & fields.keys() - known]
        return found

    def _read_key(self, node: exp.Expr) -> Iterator[Output]:
        if isinstance(node, _SETS):
            return  # refused above
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
            refuse_sorting(node, "GROUP BY of")
            name = node.name if isinstance(node, exp.Column) else alias or self._alias_of(node)
            key = _check_key(read_value(node, self.stage))
            if self.stage.environment.text.dialect is SqlDialect.POSTGRES:
                key = self._group_spans(node, key)
            self._remember_key(node, key)
            yield self._name_key(key, name)

    def _group_spans(self, node: exp.Expr, key: Expr) -> Expr:
        """Intervals are equal where their lengths are; each group shows the first of their texts."""
        if find_origin_type(node) is not OriginType.INTERVAL or key.type != STRING:
            refuse_span_column(node, "GROUP BY of")
            return key
        if isinstance(self.select.args["group"].find(*_SETS), _SETS):
            raise NotMaintained("expression: GROUPING SETS of interval", "group by its seconds: extract(epoch FROM x)")
        name = self._name(None, "first")
        self.shown[key] = AggregateCall(name, AggregateFunction.MIN, key, False, STRING)
        return Call("interval_order", (key,), Decimal(38, 0))

    def _remember_key(self, node: exp.Expr, key: Expr) -> None:
        """A query inside of a key is read once: read again for SELECT, it would be other rows, joined once more."""
        items = (item.unalias() for item in self.select.expressions)
        same = [item for item in items if item is node or item.unnest() == node]
        if node.find(exp.Query) is not None:
            self.stage.values = {**self.stage.values, **{id(item): key for item in (node, *same)}}

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

    def _read_result(self, call: AggregateCall) -> Expr:
        """A list of PostgreSQL's is NULL without rows, where ours is empty."""
        result = Column(call.name, call.type)
        in_postgres = self.stage.environment.text.dialect is SqlDialect.POSTGRES
        if call.function is not AggregateFunction.ARRAY_AGG or not in_postgres:
            return result
        return Call("nullif", (result, Literal((), call.type)), call.type)

    def _marks(self, keys: list[Output], has_sets: bool) -> tuple[list[GroupingMark], dict[int, Expr]]:
        """What tells sets apart: each `grouping` and `grouping_id` of the query."""
        marks: list[GroupingMark] = []
        values = dict(self.stage.values)
        for node in _aggregates(self.select, self.stage):
            function = called_function(node)
            if function in ("grouping", "grouping_id"):
                values[id(node)] = operators.UNKNOWN
                with PlacedMistakes(self.stage, node):
                    named = self._marked_keys(node, keys, has_sets)
                    type_ = TINYINT if function == "grouping" else BIGINT
                    if function == "grouping" and len(named) > 1:
                        type_ = INT
                    marks.append(GroupingMark(Column(self._name(None, function), type_), named))
                    values[id(node)] = marks[-1].field
        return marks, values

    def _marked_keys(self, node: exp.Expr, keys: list[Output], has_sets: bool) -> tuple[str, ...]:
        name = node.name.lower()
        if not has_sets:
            raise Mistake(f'"{name}" needs GROUPING SETS, ROLLUP or CUBE')
        names = {key.expr: key.name for key in keys}
        named = [read_value(self._meant(part.unnest())[0], self.stage) for part in node.expressions]
        one = name == "grouping" and self.stage.environment.text.dialect is not SqlDialect.POSTGRES
        if (one and len(named) != 1) or (name == "grouping" and not named) or any(expr not in names for expr in named):
            raise Mistake(f'"{name}" takes {"one key" if one else "keys"} of GROUP BY')
        return tuple(names[expr] for expr in named) or tuple(names.values())

    def _add_call(self, calls: dict[object, AggregateCall], call: AggregateCall, alias: str | None) -> Expr:
        if call not in calls:
            calls[call] = replace(call, name=self._name(alias, call.function))
        return self._read_result(calls[call])

    def _calls(self, known: dict[int, Expr]) -> tuple[list[AggregateCall], dict[int, Expr]]:
        """All aggregates of the query, equal ones once, and which node means which."""
        calls: dict[object, AggregateCall] = {}
        values = dict(known)
        for node in (one for one in _aggregates(self.select, self.stage) if id(one) not in known):
            with PlacedMistakes(self.stage, node):
                call = read_aggregate(node, self.stage, "")
                alias = node.parent.alias if isinstance(node.parent, exp.Alias) else None
                results = [self._add_call(calls, part, alias) for part in split_call(call)]
                values[id(node)] = join_results(call, results)
            values.setdefault(id(node), operators.UNKNOWN)
        return list(calls.values()), values

    def _correlation_keys(self, keys: list[Output], has_sets: bool) -> Iterator[Expr]:
        """Conditions that name the query around must be equalities: their inner sides become keys, to join it by."""
        here = {field.name for field in fields_of(self.stage.relation)}
        # HAVING also decides about the row of an outer row that nothing matches, which no join would ask it for.
        needs_rows = self.purpose != Purpose.VALUE or self.select.args.get("having")
        if self.stage.correlated and not self.select.args.get("group") and needs_rows:
            self._refuse_correlation("an aggregate without GROUP BY has a row for every outer row")
        if self.stage.correlated and has_sets:
            self._refuse_correlation("compare columns of the two queries outside of GROUPING SETS, ROLLUP and CUBE")
        for part in self.stage.correlated:
            side = split_condition(part, here)
            if side is None:
                self._refuse_correlation(None)
            key = next((key for key in keys if key.expr == side.inner), None)
            if key is None:
                key = self._name_key(side.inner, None)
                keys.append(key)
            yield side.compare(Column(key.name, side.inner.type))

    def _refuse_correlation(self, hint: str | None) -> NoReturn:
        environment = self.stage.environment
        refuse("correlated subquery", environment.books.outer_place or environment.at(self.select), hint)


def _check_key(key: Expr) -> Expr:
    if key.type in INTERVALS:
        raise NotMaintained("interval column")
    return operators.convert(key, BOOLEAN) if key.type == NULL else key
