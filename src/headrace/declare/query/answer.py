"""The columns of a query that is evaluated as it is written: names and types, without knowing what it means.

Only what types depend on is looked at: FROM and the SELECT list. What is not maintained (a window function, an
aggregate, a subquery as a value) stands there as a value of known type, so that the expressions around it are read as
they always are. The other clauses are only asked whether the columns that they name exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.declare.query import operators
from headrace.declare.query.answer_types import aggregate_type, window_type
from headrace.declare.query.environment import Environment
from headrace.declare.query.expressions import read_expression, read_value
from headrace.declare.query.items import number_names, read_items
from headrace.declare.query.known_functions import AGGREGATES
from headrace.declare.query.report import refuse
from headrace.declare.query.scope import FromTable, Scope, Visible, fold
from headrace.declare.query.stage import PlacedMistakes, QueryStage, say_unknown_column
from headrace.declare.query.text import Text, is_quoted
from headrace.model.errors import UnsupportedSql, nearest_name
from headrace.model.expr import Column
from headrace.model.relation import Scan
from headrace.model.types import BOOLEAN, TIMESTAMP, Type

Columns = tuple[Visible, ...]
Written = Callable[[str], tuple[Text, exp.Query] | None]
"""Text and tree of a view, by its name in any case."""

NO_ROWS = Scan("", "", (), ())
CLAUSES = ("where", "group", "having", "qualify", "order", "windows")
WINDOWS = ("window", "session_window")


@dataclass(frozen=True, slots=True)
class Answers:
    """`common` are the columns of WITH by folded names, `outer` what a query inside another one sees of it."""

    environment: Environment
    written: Written
    common: Mapping[str, Columns]
    outer: tuple[Scope, ...] = ()

    def of(self, node: exp.Expr) -> Columns:
        """Raises UnsupportedSql where a type cannot be told; mistakes are in the environment's report."""
        with_ = node.args.get("with_")
        inside = self if with_ is None else self._with(with_)
        if isinstance(node, exp.Select):
            return inside._select(node)
        if isinstance(node, exp.SetOperation):
            return inside._unite_queries(node)
        if not isinstance(node, exp.Subquery) or not isinstance(node.this, exp.Query):
            refuse(f"clause: {type(node).__name__.lower()}", self.environment.at(node))
        return inside.of(node.this)

    def _with(self, node: exp.Expr) -> Answers:
        inside = self
        for part in node.expressions:
            names, body = [column.name for column in part.args["alias"].columns], part.this
            if node.args.get("recursive") and isinstance(body, exp.SetOperation):
                first = _name_columns(inside.of(body.this), names)
                inside._knowing(part.alias, first).of(body.expression)
                inside = inside._knowing(part.alias, first)
            else:
                inside = inside._knowing(part.alias, _name_columns(inside.of(body), names))
        return inside

    def _knowing(self, name: str, columns: Columns) -> Answers:
        return replace(self, common={**self.common, fold(name): columns})

    def _unite_queries(self, node: exp.SetOperation) -> Columns:
        """Unites columns by position, in the names of the first query and in types that hold both."""
        left, right = self.of(node.this), self.of(node.expression)
        if len(left) != len(right):
            self.environment.error(f"the queries have {len(left)} and {len(right)} columns", node.expression)
            return left
        stage = self._stage(Scope())
        made = []
        for one, other in zip(left, right, strict=True):
            with PlacedMistakes(stage, node.expression):
                made.append(_make_visible(one.name, operators.unify([one.value, other.value])[0].type))
        return tuple(made)

    # One SELECT

    def _select(self, node: exp.Select) -> Columns:
        scope = self._scope(node)
        stage = self._stage(scope)
        values = _Values(self, stage, _groups_by_window(node))
        for item in node.expressions:
            with PlacedMistakes(stage, item):
                values.place(item)
        items = read_items(node.expressions, stage, named=not self.outer)
        aliases = {fold(item.name) for item in items}
        for clause in CLAUSES:
            part = node.args.get(clause)
            for inner in part if isinstance(part, list) else [part]:
                self.check(inner, scope, aliases, values.has_window)
        return tuple(_make_visible(item.name, item.value.type) for item in items)

    def _stage(self, scope: Scope) -> QueryStage:
        outer: QueryStage | None = None
        for around in reversed(self.outer):
            outer = QueryStage(self.environment, "SELECT", around, NO_ROWS, outer=outer)
        return QueryStage(self.environment, "SELECT", scope, NO_ROWS, outer=outer)

    def inside(self, scope: Scope) -> Answers:
        """Answers for a query that stands in an expression."""
        return replace(self, outer=(scope, *self.outer))

    def check(self, node: exp.Expr | None, scope: Scope, aliases: set[str], has_window: bool) -> None:
        """Whether the columns that a clause names exist."""
        if isinstance(node, exp.Query):
            self.inside(scope).of(node)
        elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            if not (self._exists(node, scope, aliases) or (has_window and fold(node.table or node.name) in WINDOWS)):
                written = f"{node.table}.{node.name}" if node.table else node.name
                message, hint = say_unknown_column(written, scope, is_quoted(node))
                self.environment.error(message, node, hint)
        elif node is not None:
            for inner in node.iter_expressions():
                self.check(inner, scope, aliases, has_window)

    def _exists(self, node: exp.Column, scope: Scope, aliases: set[str]) -> bool:
        if not node.table and fold(node.name) in aliases:
            return True
        name, table = node.name, node.table or None
        if not any(found.find(name, table) for found in (scope, *self.outer[:1])):
            if any(found.find(name, table) for found in self.outer[1:]):
                refuse("correlated subquery", self.environment.at(node))
            return False
        return True

    # FROM

    def _scope(self, node: exp.Select) -> Scope:
        from_ = node.args.get("from_")
        if from_ is None:
            return Scope()
        scope = self._item(from_.this)
        for join in node.args.get("joins") or ():
            scope = self._join_scopes(scope, join)
        return scope

    def _item(self, node: exp.Expr) -> Scope:
        if isinstance(node, exp.Table):
            scope = Scope((FromTable(node.alias or node.name, self._rename_columns(node, self._table(node))),))
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            scope = Scope((FromTable(node.alias, self._rename_columns(node, self.of(node.this))),))
        elif isinstance(node, exp.Subquery):
            scope = self._item(node.this)
        else:
            refuse(f"clause: {type(node).__name__.lower()}", self.environment.at(node))
        for join in node.args.get("joins") or ():
            scope = self._join_scopes(scope, join)
        return scope

    def _rename_columns(self, node: exp.Expr, columns: Columns) -> Columns:
        alias = node.args.get("alias")
        return _name_columns(columns, [] if alias is None else [column.name for column in alias.columns])

    def _join_scopes(self, left: Scope, node: exp.Join) -> Scope:
        right = self._item(node.this)
        self.check(node.args.get("on"), _side_by_side(left, right), set(), False)
        if str(node.args.get("kind") or "").upper() in ("SEMI", "ANTI"):
            return left
        names, method = [name.name for name in node.args.get("using") or ()], str(node.args.get("method") or "").lower()
        if method not in ("", "natural"):
            refuse(f"clause: {method} join", self.environment.at(node))
        if method:
            there = {fold(column.name) for column in right.all()}
            names = [column.name for column in left.all() if fold(column.name) in there]
        return self._merge_scopes(node, left, right, names)

    def _merge_scopes(self, node: exp.Join, left: Scope, right: Scope, names: list[str]) -> Scope:
        """Merges two scopes: after USING each of its columns is there once."""
        both, merged = _side_by_side(left, right), []
        for name in names:
            values = [*left.find(name, None), *right.find(name, None)]
            if len(values) != 2:
                self.environment.error(f'column "{name}" is not once on each side of the join', node)
                continue
            with PlacedMistakes(self._stage(both), node):
                merged.append(_make_visible(name, operators.unify(values)[0].type))
        folded = {fold(name) for name in names}
        hidden = {(fold(t.alias), fold(c.name)) for t in both.tables for c in t.columns if fold(c.name) in folded}
        before = tuple(column for column in both.merged if fold(column.name) not in folded)
        return Scope(both.tables, (*merged, *before), both.hidden | hidden)

    def _table(self, node: exp.Table) -> Columns:
        name = f"{node.db}.{node.name}" if node.db else node.name
        common = None if node.db else self.common.get(fold(name))
        if common is not None:
            return common
        source = self.environment.declared.source(name)
        if source is not None and source.columns is not None:
            return tuple(_make_visible(column.name, column.type) for column in source.columns)
        view = self.written(name)
        if view is not None:
            text, tree = view
            own = replace(self.environment, text=text)
            columns = Answers(own, self.written, {}).of(tree)
            return _name_columns(columns, number_names([column.name for column in columns]))
        if source is None:
            known = (*self.environment.declared.table_names(), *self.common)
            self.environment.error(f'table "{name}" does not exist', node, nearest_name(name, known))
        else:
            self.environment.error(f'the columns of source "{source.name}" are not known', node)
        return ()


@dataclass(slots=True)
class _Values:
    """Values of known type for what is not read, by the identity of its node."""

    answers: Answers
    stage: QueryStage
    has_window: bool

    def place(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Cast):
            self._cast(node)
            return
        type_ = self._type(node)
        if type_ is not None:
            self._put(node, type_)
            return
        for inner in node.iter_expressions():
            self.place(inner)

    def _put(self, node: exp.Expr, type_: Type) -> None:
        self.stage.values = {**self.stage.values, id(node): Column("", type_)}

    def _cast(self, node: exp.Cast) -> None:
        """A cast says its type by itself, whatever is in it."""
        try:
            for inner in node.iter_expressions():
                self.place(inner)
            read_value(node, self.stage)
        except UnsupportedSql:
            self._put(node, read_expression(exp.Cast(this=exp.Null(), to=node.args["to"].copy()), self.stage).type)

    def _type(self, node: exp.Expr) -> Type | None:
        """The type of what is not read; None for what is."""
        if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query")):
            for query in _queries(node):
                self.answers.inside(self.stage.scope).of(query)
            return BOOLEAN
        if isinstance(node, exp.Query):
            columns = self.answers.inside(self.stage.scope).of(node)
            return columns[0].value.type if len(columns) == 1 else None
        if isinstance(node, exp.Window) or _is_aggregate(node, self.stage):
            for inner in node.this.iter_expressions() if isinstance(node, exp.Window) else node.iter_expressions():
                self.place(inner)
        if isinstance(node, exp.Window):
            self.answers.check(node, self.stage.scope, set(), self.has_window)
            return window_type(node, self.stage)
        if _is_aggregate(node, self.stage):
            return aggregate_type(node, self.stage)
        if self.has_window and isinstance(node, exp.Column) and not node.table and fold(node.name) in WINDOWS:
            refuse("struct column", self.stage.environment.at(node))
        return TIMESTAMP if self.has_window and _is_bound(node) else None


def _side_by_side(left: Scope, right: Scope) -> Scope:
    return Scope(left.tables + right.tables, left.merged + right.merged, left.hidden | right.hidden)


def _queries(node: exp.Expr) -> Iterator[exp.Query]:
    for inner in node.iter_expressions():
        if isinstance(inner, exp.Query):
            yield inner


def _is_aggregate(node: exp.Expr, stage: QueryStage) -> bool:
    call = node.this if isinstance(node, exp.Filter | exp.WithinGroup) else node
    if isinstance(call, exp.WithinGroup):
        call = call.this
    declared = stage.environment.declared.functions
    return isinstance(call, exp.Anonymous) and call.name.lower() in AGGREGATES and call.name.lower() not in declared


def _groups_by_window(node: exp.Select) -> bool:
    group = node.args.get("group")
    calls = group.find_all(exp.Anonymous) if group is not None else ()
    return any(fold(call.name) in WINDOWS for call in calls)


def _is_bound(node: exp.Expr) -> bool:
    """`window.start`, or `session_window(...).end`."""
    if isinstance(node, exp.Column):
        return fold(node.table) in WINDOWS and fold(node.name) in ("start", "end")
    call = node.this if isinstance(node, exp.Dot) else None
    return isinstance(call, exp.Anonymous) and fold(call.name) in WINDOWS


def _make_visible(name: str, type_: Type) -> Visible:
    return Visible(name, Column(name, type_))


def _name_columns(columns: Columns, names: list[str]) -> Columns:
    if len(names) != len(columns):
        return columns
    return tuple(_make_visible(name, column.value.type) for name, column in zip(names, columns, strict=True))
