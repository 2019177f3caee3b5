"""A function as a reader of queries knows it: its name, what it takes, and what type it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from headrace.model.expr import Expr
from headrace.model.types import Type


class Parameter(StrEnum):
    """What an argument may be. Numbers widen to `INT` and `DOUBLE`, dates and timestamps convert into each other.

    All arguments for `SAME` are converted to their common type; `NUMBER`, `INTEGER`, `BYTES` and `ANY` stay as they
    are; `ATOMIC` becomes text.
    """

    BOOLEAN = "boolean"
    TEXT = "string"
    BYTES = "string or binary"
    INT = "int"
    BIGINT = "bigint"
    INTEGER = "a whole number"
    DOUBLE = "double"
    DATE = "date"
    TIMESTAMP = "timestamp"
    NUMBER = "a number"
    ATOMIC = "a simple type"
    ARRAY = "an array"
    ANY = "any type"
    SAME = "one type"


ResultRule = Callable[[tuple[Expr, ...]], Type]
"""The type of a call, from its arguments, which already have the types that the parameters ask for."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the list. The last `optional` parameters may be left out; the last one may be `repeated`.

    Arguments at the positions in `constant` must be literals. One that is `total` has a value, perhaps NULL, for all
    arguments; others may fail. One that `sees_null` can be other than NULL when an argument is NULL.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Type | ResultRule
    optional: int = 0
    repeated: bool = False
    constant: tuple[int, ...] = ()
    version: int = 1
    total: bool = False
    sees_null: bool = False

    def accepts(self, count: int) -> bool:
        """Whether the function can be called with this many arguments."""
        fewest = len(self.parameters) - self.optional
        return fewest <= count and (self.repeated or count <= len(self.parameters))

    def parameter(self, position: int) -> Parameter:
        return self.parameters[min(position, len(self.parameters) - 1)]

    def result_type(self, arguments: tuple[Expr, ...]) -> Type:
        return self.result(arguments) if callable(self.result) else self.result

    @property
    def signature(self) -> str:
        """The signature as people read it: `round(a number[, int])`."""
        fewest = len(self.parameters) - self.optional
        shown = ", ".join(self.parameters[:fewest])
        shown += "".join(f"[, {parameter}]" for parameter in self.parameters[fewest:])
        return f"{self.name}({shown}{', ...' if self.repeated else ''})"
