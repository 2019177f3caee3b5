"""Inside the reading of one expression: what stops it, before its place is known. `expressions` adds the place and
reports.
"""

from __future__ import annotations

from sqlglot import exp


class Mistake(Exception):
    """The expression is wrong: report it, take NULL in its place, and go on.

    Without a message it only follows from another mistake. `node` is where it is, if nearer than the whole expression.
    """

    def __init__(self, message: str, hint: str | None = None, node: exp.Expr | None = None) -> None:
        self.message = message
        self.hint = hint
        self.node = node
        super().__init__(message)


class NotMaintained(Exception):
    """The expression is valid but not maintained: refuse the query."""

    def __init__(self, operator: str, hint: str | None = None) -> None:
        self.operator = operator
        self.hint = hint
        super().__init__(operator)
