"""Queries that name columns of the query around them, made independent of it.

Where the outer columns stand in conditions that can be moved out, readers move them. This module does the rest, for any
tree: the distinct values of the outer columns (the domain) are joined into the inner tree, as low as they are needed,
and carried up through every operator, which then works for each value of the domain. At the top the rows around are
joined by equality with the domain, where NULL equals NULL. After Neumann and Kemper, "Unnesting Arbitrary Queries"
(BTW 2015).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.declare.query.constants import is_one_row
from headrace.declare.query.environment import Environment, Rows
from headrace.declare.query.report import refuse
from headrace.declare.query.trees import expressions_of
from headrace.model.expr import Call, Column, Expr, Literal, conjunction, conjuncts, substitute, walk
from headrace.model.relation import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Output,
    Over,
    Projection,
    Relation,
    Sessions,
    TopK,
    Unfold,
    UnionAll,
    Windows,
    fields_of,
    inputs_of,
    over_nothing,
)
from headrace.model.rewrite import with_expressions
from headrace.model.types import BOOLEAN

_LEFT_DECIDES = (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


def find_free(relation: Relation) -> dict[str, Column]:
    """Columns that a tree reads and does not have: those of queries around it."""
    here = {field.name for input_ in inputs_of(relation) for field in fields_of(input_)}
    free = {name: column for input_ in inputs_of(relation) for name, column in find_free(input_).items()}
    return free | find_columns(expressions_of(relation), here)


def find_columns(exprs: Iterable[Expr], without: Iterable[str] = ()) -> dict[str, Column]:
    """Columns of expressions, in order, but for those of these names."""
    known = set(without)
    columns = (node for expr in exprs for node in walk(expr) if isinstance(node, Column))
    return {column.name: column for column in columns if column.name not in known}


def bind_outer(rows: Rows, around: Relation, environment: Environment) -> Rows:
    """The rows of an inner query for each combination of the outer columns that it reads, to be joined by them."""
    inner = {field.name for field in fields_of(rows.relation)}
    values = find_columns((column.value for column in rows.columns), inner)
    outer = {field.name for field in fields_of(around)}
    free = {name: column for name, column in (find_free(rows.relation) | values).items() if name in outer}
    if not free:
        return rows
    domain = _make_domain(free, around, environment)
    bound = domain.bind(rows.relation)
    columns = tuple(replace(column, value=substitute(column.value, domain.columns)) for column in rows.columns)
    equal = (Call("<=>", (domain.columns[name], column), BOOLEAN) for name, column in free.items())
    return replace(rows, relation=bound, columns=columns, correlated=(*rows.correlated, *equal))


def _make_domain(free: Mapping[str, Column], around: Relation, environment: Environment) -> _Domain:
    stem = f"{environment.path}outer."
    names = {name: environment.books.fresh(f"{stem}{name.rpartition('.')[2]}") for name in free}
    outputs = tuple(Output(names[name], column) for name, column in free.items())
    columns = {name: Column(names[name], column.type) for name, column in free.items()}
    return _Domain(Distinct(Projection(around, outputs)), columns, environment)


@dataclass(frozen=True, slots=True)
class _Domain:
    """Values of outer columns, each combination once. `columns` are its fields by the names of the outer columns."""

    relation: Relation
    columns: Mapping[str, Column]
    environment: Environment

    def bind(self, relation: Relation) -> Relation:
        """The rows of a tree for each row of the domain: its fields come first, then those of the tree."""
        if is_one_row(relation):
            nothing = (Output(field.name, Literal(1, field.type)) for field in fields_of(relation))
            return Projection(self.relation, (*self._outputs(), *nothing))
        if not self._is_free(relation):
            return Join(JoinKind.INNER, self.relation, relation, conjunction(()))
        match relation:
            case Filter(input_, predicate):
                if self._is_free(input_):
                    return Filter(self.bind(input_), self._bound(predicate))
                return Join(JoinKind.INNER, self.relation, input_, self._bound(predicate))
            case Projection(input_, outputs):
                own = (Output(output.name, self._bound(output.expr)) for output in outputs)
                return Projection(self.bind(input_), (*self._outputs(), *own))
            case Join():
                return self._in_order(self._join(relation), relation)
            case UnionAll(inputs):
                return UnionAll(tuple(self.bind(input_) for input_ in inputs))
            case Distinct(input_):
                return Distinct(self.bind(input_))
            case Aggregate():
                return self._aggregate(relation)
            case TopK(input_, partition) | Over(input_, partition) | Sessions(input_, partition):
                bound = with_expressions(replace(relation, input=self.bind(input_)), self._bound)
                assert isinstance(bound, TopK | Over | Sessions), "an operator stays what it is"
                return replace(bound, partition=(*self.columns.values(), *map(self._bound, partition)))
            case Unfold(input_):
                return replace(relation, input=self.bind(input_))
            case Windows(input_):
                return with_expressions(replace(relation, input=self.bind(input_)), self._bound)
        environment = self.environment
        return refuse("correlated subquery", environment.books.outer_place or environment.text.origin)

    def _is_free(self, relation: Relation) -> bool:
        return any(name in self.columns for name in find_free(relation))

    def _bound(self, expr: Expr) -> Expr:
        return substitute(expr, self.columns)

    def _outputs(self) -> tuple[Output, ...]:
        return tuple(Output(column.name, column) for column in self.columns.values())

    def _in_order(self, bound: Relation, relation: Relation) -> Relation:
        """The bound rows with their fields in the one order, on which unions depend."""
        fields = tuple(Output(field.name, Column(field.name, field.type)) for field in fields_of(relation))
        outputs = (*self._outputs(), *fields)
        same = [output.name for output in outputs] == [field.name for field in fields_of(bound)]
        return bound if same else Projection(bound, outputs)

    def _renamed(self, bound: Relation) -> tuple[Relation, dict[str, Column]]:
        """Bound rows with other names for the domain's fields, by their own names."""
        fresh = self.environment.books.fresh
        names = {column.name: Column(fresh(column.name), column.type) for column in self.columns.values()}
        outputs = tuple(
            Output(names[field.name].name if field.name in names else field.name, Column(field.name, field.type))
            for field in fields_of(bound)
        )
        return Projection(bound, outputs), names

    def _equal(self, names: Mapping[str, Column]) -> tuple[Expr, ...]:
        own = {column.name: column for column in self.columns.values()}
        return tuple(Call("<=>", (own[name], other), BOOLEAN) for name, other in names.items())

    def _join(self, join: Join) -> Relation:
        left_free, right_free = self._is_free(join.left), self._is_free(join.right)
        on = conjuncts(self._bound(join.on))
        if join.kind == JoinKind.RIGHT:
            return self._join(Join(JoinKind.LEFT, join.right, join.left, join.on))
        if join.kind == JoinKind.FULL:
            return self._full(join, on)
        if join.kind == JoinKind.INNER and not left_free and right_free:
            return Join(join.kind, join.left, self.bind(join.right), conjunction(on))
        if not right_free:
            return Join(join.kind, self.bind(join.left), join.right, conjunction(on))
        right, names = self._renamed(self.bind(join.right))
        return Join(join.kind, self.bind(join.left), right, conjunction((*self._equal(names), *on)))

    def _full(self, join: Join, on: tuple[Expr, ...]) -> Relation:
        right, names = self._renamed(self.bind(join.right))
        joined = Join(JoinKind.FULL, self.bind(join.left), right, conjunction((*self._equal(names), *on)))
        # A row without a partner has NULLs for the other side's domain, and one of both is always there. A value of
        # the domain that is NULL itself is NULL on both sides.
        either = tuple(
            Output(column.name, Call("coalesce", (column, names[column.name]), column.type))
            for column in self.columns.values()
        )
        fields = (Output(field.name, Column(field.name, field.type)) for field in fields_of(join))
        return Projection(joined, (*either, *fields))

    def _rename_outer(self, key: Output) -> Output:
        """A key that is an outer column has its name, which is one of the rows around; it is read as the domain's."""
        name = self.environment.books.fresh(f"{self.environment.path}{key.name}")
        return replace(key, name=name) if key.name in self.columns else key

    def _aggregate(self, relation: Aggregate) -> Relation:
        below = with_expressions(replace(relation, input=self.bind(relation.input)), self._bound)
        assert isinstance(below, Aggregate), "an operator stays what it is"
        grouped = replace(below, keys=(*self._outputs(), *map(self._rename_outer, below.keys)))
        if relation.keys:
            return grouped
        # Without keys there is a row also where there are no rows to aggregate.
        right, names = self._renamed(grouped)
        joined = Join(JoinKind.LEFT, self.relation, right, conjunction(self._equal(names)))
        nothing = {call.name: over_nothing(call) for call in relation.calls}
        calls = (Output(field.name, or_nothing(field.name, nothing[field.name])) for field in fields_of(relation))
        return Projection(joined, (*self._outputs(), *calls))


def or_nothing(name: str, nothing: Literal) -> Expr:
    """A field that a join may not have found, or its value where there is nothing."""
    column = Column(name, nothing.type)
    return column if nothing.value is None else Call("coalesce", (column, nothing), nothing.type)
