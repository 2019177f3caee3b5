"""Random scalar expressions over given fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.relation import Field
from headrace.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type
from headrace.testing.tables import COLUMN_TYPES, values

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


@dataclass(frozen=True, slots=True)
class ScalarMaker:
    """Draws expressions that read the given fields."""

    draw: st.DrawFn
    fields: tuple[Field, ...]

    def make(self, type_: Type, depth: int) -> Expr:
        """An expression of exactly this type with at most `depth` nested calls."""
        if depth == 0:
            return self.leaf(type_)
        return self.draw(st.sampled_from((self._leaf, self._leaf, self._choice, self._own)))(type_, depth - 1)

    def leaf(self, type_: Type) -> Expr:
        """A column where there is one of that type, else a literal."""
        columns = [Column(f.name, f.type) for f in self.fields if f.type == type_]
        if columns and self.draw(st.sampled_from((True, True, True, False))):
            return self.draw(st.sampled_from(columns))
        return Literal(self.draw(values(type_)), type_)

    def _leaf(self, type_: Type, depth: int) -> Expr:
        return self.leaf(type_)

    def _choice(self, type_: Type, depth: int) -> Expr:
        """Functions that every type has."""
        function = self.draw(st.sampled_from(("case", "coalesce", "nullif", "greatest", "least")))
        first, second = self.make(type_, depth), self.make(type_, depth)
        if function == "case":
            return Call("case", (self.make(BOOLEAN, depth), first, second), type_)
        return Call(function, (first, second), type_)

    def _own(self, type_: Type, depth: int) -> Expr:
        """Functions with results of this type."""
        makers: dict[Type, Callable[[int], Expr]] = {
            BOOLEAN: self._predicate,
            INT: self._int,
            BIGINT: self._bigint,
            DOUBLE: self._double,
            STRING: self._string,
            DATE: self._date,
            TIMESTAMP: self._timestamp,
        }
        return makers[type_](depth) if type_ in makers else self.leaf(type_)

    def _predicate(self, depth: int) -> Expr:
        kind = self.draw(st.sampled_from(("compare", "compare", "and", "or", "not", "is_null", "in", "like")))
        operand = self.draw(st.sampled_from(COLUMN_TYPES))
        match kind:
            case "and" | "or":
                return Call(kind, (self.make(BOOLEAN, depth), self.make(BOOLEAN, depth)), BOOLEAN)
            case "not":
                return Call("not", (self.make(BOOLEAN, depth),), BOOLEAN)
            case "is_null":
                return Call("is_null", (self.make(operand, depth),), BOOLEAN)
            case "in":
                return Call("in", (self.leaf(operand), self.leaf(operand), self.leaf(operand)), BOOLEAN)
            case "like":
                pattern = self.draw(st.sampled_from(("a%", "%b", "_", "%", "", "10\\%\\_")))
                return Call("like", (self.leaf(STRING), Literal(pattern, STRING)), BOOLEAN)
            case _:
                function = self.draw(st.sampled_from(COMPARISONS))
                return Call(function, (self.make(operand, depth), self.make(operand, depth)), BOOLEAN)

    def _int(self, depth: int) -> Expr:
        function, argument = self.draw(
            st.sampled_from((("length", STRING), ("year", DATE), ("hour", TIMESTAMP), ("abs", INT), ("negate", INT)))
        )
        return Call(function, (self.make(argument, depth),), INT)

    def _bigint(self, depth: int) -> Expr:
        function = self.draw(st.sampled_from(("+", "-", "*", "cast")))
        if function == "cast":
            return Call("cast", (self.make(INT, depth),), BIGINT)
        return Call(function, (self.leaf(BIGINT), Call("cast", (self.leaf(INT),), BIGINT)), BIGINT)

    def _double(self, depth: int) -> Expr:
        function = self.draw(st.sampled_from(("+", "-", "*", "cast", "sqrt")))
        if function in ("cast", "sqrt"):
            return Call("cast", (self.make(INT, depth),), DOUBLE)
        return Call(function, (self.make(DOUBLE, depth), self.leaf(DOUBLE)), DOUBLE)

    def _string(self, depth: int) -> Expr:
        function = self.draw(st.sampled_from(("upper", "trim", "concat", "substring", "cast")))
        match function:
            case "concat":
                return Call("concat", (self.make(STRING, depth), self.leaf(STRING)), STRING)
            case "substring":
                return Call("substring", (self.make(STRING, depth), Literal(1, INT), Literal(1, INT)), STRING)
            case "cast":
                return Call("cast", (self.make(self.draw(st.sampled_from(COLUMN_TYPES)), depth),), STRING)
            case _:
                return Call(function, (self.make(STRING, depth),), STRING)

    def _date(self, depth: int) -> Expr:
        if self.draw(st.booleans()):
            return Call("cast", (self.make(TIMESTAMP, depth),), DATE)
        return Call("date_add", (self.make(DATE, depth), Literal(1, INT)), DATE)

    def _timestamp(self, depth: int) -> Expr:
        unit = Literal(self.draw(st.sampled_from(("HOUR", "DAY", "MONTH"))), STRING)
        return Call("date_trunc", (unit, self.make(TIMESTAMP, depth)), TIMESTAMP)
