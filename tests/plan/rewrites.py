"""Other spellings of a query: random rewrites that keep its meaning, and random edits that may change it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from headrace.model.expr import FALSE, TRUE, Call, Column, Expr, Literal, conjunction, conjuncts, transform
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Field,
    Filter,
    Join,
    JoinKind,
    Output,
    Over,
    Projection,
    Relation,
    Scan,
    Sessions,
    TopK,
    Unfold,
    UnionAll,
    Windows,
    fields_of,
)
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, INT

FLIPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def columns_of_fields(fields: Iterable[Field]) -> tuple[Output, ...]:
    return tuple(Output(field.name, Column(field.name, field.type)) for field in fields)


def with_inputs(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """The operator over changed inputs."""
    match relation:
        case Scan():
            return relation
        case Join():
            return replace(relation, left=change(relation.left), right=change(relation.right))
        case UnionAll(inputs):
            return UnionAll(tuple(map(change, inputs)))
        case Filter() | Projection() | Distinct() | Aggregate() | Windows() | Sessions() | Unfold() | TopK() | Over():
            return replace(relation, input=change(relation.input))
    raise AssertionError(f"no query has this operator: {relation}")


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Draws another spelling of a relation with the same rows and the same fields in the same order."""

    draw: st.DrawFn

    def chance(self) -> bool:
        return self.draw(st.sampled_from((True, False)))

    def relation(self, relation: Relation) -> Relation:
        relation = with_inputs(relation, self.relation)
        for change in self.draw(
            st.lists(st.sampled_from((self.here, self.wrapped, self.filtered_by_nothing)), max_size=2)
        ):
            relation = change(relation)
        return relation

    def wrapped(self, relation: Relation) -> Relation:
        """A subquery that selects everything, under other names and in another order."""
        fields = fields_of(relation)
        shuffled = self.draw(st.permutations(fields))
        renamed = Projection(relation, tuple(Output(f"q.{f.name}", Column(f.name, f.type)) for f in shuffled))
        return Projection(renamed, tuple(Output(f.name, Column(f"q.{f.name}", f.type)) for f in fields))

    def filtered_by_nothing(self, relation: Relation) -> Relation:
        always: tuple[Expr, ...] = (TRUE, Call("=", (Literal(1, INT), Literal(1, INT)), BOOLEAN))
        return Filter(relation, self.draw(st.sampled_from(always)))

    def here(self, relation: Relation) -> Relation:
        match relation:
            case Filter(Filter(inner, first), second) if self.chance():
                return Filter(inner, conjunction((*conjuncts(second), *conjuncts(first))))
            case Filter(input_, predicate):
                return self.filter(input_, self.predicate(predicate))
            case Join():
                return self.join(relation)
            case Aggregate(input_, keys, calls):
                shuffled = Aggregate(
                    input_, tuple(self.draw(st.permutations(keys))), tuple(self.draw(st.permutations(calls)))
                )
                return Projection(shuffled, columns_of_fields(fields_of(relation)))
            case UnionAll(inputs):
                return self.union(relation, inputs)
            case Distinct(input_):
                return (
                    Distinct(relation)
                    if self.chance()
                    else Aggregate(input_, columns_of_fields(fields_of(relation)), ())
                )
            case Projection(input_, outputs):
                return Projection(input_, tuple(Output(output.name, self.value(output.expr)) for output in outputs))
        return relation

    def filter(self, input_: Relation, predicate: Expr) -> Relation:
        parts = conjuncts(predicate)
        if len(parts) > 1 and self.chance():
            return Filter(Filter(input_, conjunction(parts[:1])), conjunction(parts[1:]))
        return Filter(input_, predicate)

    def join(self, relation: Join) -> Relation:
        kind, left, right, on = relation.kind, relation.left, relation.right, self.predicate(relation.on)
        swapped = {
            JoinKind.INNER: JoinKind.INNER,
            JoinKind.LEFT: JoinKind.RIGHT,
            JoinKind.RIGHT: JoinKind.LEFT,
            JoinKind.FULL: JoinKind.FULL,
        }
        if kind in swapped and self.chance():
            return Projection(Join(swapped[kind], right, left, on), columns_of_fields(fields_of(relation)))
        if kind is JoinKind.INNER and self.chance():
            return Filter(Join(kind, left, right, TRUE), on)
        return replace(relation, on=on)

    def union(self, relation: Relation, inputs: tuple[Relation, ...]) -> Relation:
        """Branches in another order; names are those of the first one, so they are given back."""
        fields = fields_of(relation)
        shuffled = UnionAll(tuple(self.draw(st.permutations(inputs))))
        outputs = zip(fields, fields_of(shuffled), strict=True)
        return Projection(shuffled, tuple(Output(f.name, Column(g.name, g.type)) for f, g in outputs))

    def predicate(self, predicate: Expr) -> Expr:
        """Equal as a condition: also what is said twice may be said."""
        predicate = self.value(predicate)
        parts = list(self.draw(st.permutations(conjuncts(predicate))))
        if parts and self.chance():
            parts.append(self.value(parts[0]))
        return conjunction(tuple(parts))

    def value(self, expr: Expr) -> Expr:
        return transform(expr, self.node)

    def node(self, expr: Expr) -> Expr:
        """Equal as a value, NULLs included."""
        if not isinstance(expr, Call) or not self.chance():
            return expr
        arguments = expr.arguments
        match expr.function:
            case name if name in FLIPPED and self.chance():
                return replace(expr, function=FLIPPED[name], arguments=arguments[::-1])
            case name if name in NEGATED:
                return Call("not", (replace(expr, function=NEGATED[name]),), BOOLEAN)
            case "and" | "or":
                return self.logic(expr)
            case "in":
                options = self.draw(st.permutations(arguments[1:]))
                return Call("or", tuple(Call("=", (arguments[0], option), BOOLEAN) for option in options), BOOLEAN)
            case "+" | "*" | "<=>" | "greatest" | "least":
                return replace(expr, arguments=tuple(self.draw(st.permutations(arguments))))
            case _ if expr.type == BOOLEAN:
                return Call("not", (Call("not", (expr,), BOOLEAN),), BOOLEAN)
        return expr

    def logic(self, expr: Call) -> Expr:
        arguments = tuple(self.draw(st.permutations(expr.arguments)))
        if self.chance():
            return replace(expr, arguments=(*arguments, arguments[0]))
        other = "or" if expr.function == "and" else "and"
        return Call("not", (Call(other, tuple(Call("not", (a,), BOOLEAN) for a in arguments), BOOLEAN),), BOOLEAN)


@dataclass(frozen=True, slots=True)
class Editor:
    """Draws a relation with fields of the same names and types that differs here and there. It may mean the same."""

    draw: st.DrawFn

    def relation(self, relation: Relation) -> Relation:
        relation = with_inputs(relation, self.relation)
        return self.here(relation) if self.draw(st.sampled_from((True, False, False))) else relation

    def here(self, relation: Relation) -> Relation:
        match relation:
            case Filter(input_, predicate):
                return self.draw(st.sampled_from((input_, Filter(input_, self.edited(predicate)))))
            case Projection(input_, outputs):
                return Projection(input_, tuple(Output(output.name, self.edited(output.expr)) for output in outputs))
            case Join():
                return self.join(relation)
            case Distinct(input_):
                return input_
            case Aggregate(input_, keys, calls):
                return Aggregate(input_, keys, tuple(map(self.call, calls)))
            case TopK():
                return replace(
                    relation, limit=relation.limit + self.draw(st.integers(0, 1)), offset=self.draw(st.integers(0, 1))
                )
            case UnionAll(inputs):
                return UnionAll((*inputs, inputs[-1]))
        return Distinct(relation)

    def join(self, relation: Join) -> Join:
        same = {JoinKind.SEMI: (JoinKind.SEMI, JoinKind.ANTI), JoinKind.ANTI: (JoinKind.SEMI, JoinKind.ANTI)}
        outer = (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)
        kind = self.draw(st.sampled_from(same.get(relation.kind, outer)))
        return replace(relation, kind=kind, on=self.edited(relation.on) if self.draw(st.booleans()) else relation.on)

    def call(self, call: AggregateCall) -> AggregateCall:
        if call.function in (AggregateFunction.MIN, AggregateFunction.MAX):
            return replace(call, function=self.draw(st.sampled_from((AggregateFunction.MIN, AggregateFunction.MAX))))
        if call.argument is not None:
            return replace(call, distinct=not call.distinct)
        return call

    def edited(self, expr: Expr) -> Expr:
        return transform(expr, self.node)

    def node(self, expr: Expr) -> Expr:
        if not self.draw(st.sampled_from((True, False, False))):
            return expr
        match expr:
            case Call(function) if function in NEGATED:
                return replace(expr, function=self.draw(st.sampled_from(tuple(NEGATED))))
            case Call("and" | "or"):
                return replace(expr, function=self.draw(st.sampled_from(("and", "or"))))
            case Call("not", (inner,)):
                return inner
            case Literal(int() as value, type_) if type_ in (INT, BIGINT):
                return Literal(value + self.draw(st.integers(-1, 1)), type_)
            case Literal(float() as value, type_) if type_ == DOUBLE:
                return Literal(value + 1.0, type_)
            case Call() if expr.type == BOOLEAN:
                others: tuple[Expr, ...] = (Call("not", (expr,), BOOLEAN), TRUE, FALSE)
                return self.draw(st.sampled_from(others))
        return expr
