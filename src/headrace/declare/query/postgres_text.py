"""PostgreSQL's text as a tree: functions stay calls by the name that was written, as they do for Spark.

Names without quotes are in lower case from here on, which is what PostgreSQL calls the columns of a result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser

from headrace.declare.query.postgres_building import spread_lists
from headrace.declare.query.postgres_kin import write_kin
from headrace.declare.query.postgres_records import keep_order_of_lists, spread_records
from headrace.declare.query.postgres_tree import name_functions, spread_fractions, spread_rows

SPECIAL_SYNTAX = ("CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY")
"""Functions whose arguments are more than a list."""


class PostgresText(Postgres):
    """PostgreSQL's: a backslash is a character like others, except in E'...'. Places in arrays stay as written."""

    INDEX_OFFSET = 0


class PostgresReader(PostgresParser):
    """sqlglot's parser with functions as written."""

    STRICT_CAST = True
    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    COLUMN_OPERATORS: ClassVar[dict[TokenType, Callable[..., exp.Expr] | None]] = {
        **PostgresParser.COLUMN_OPERATORS,
        TokenType.ARROW: lambda self, this, part: self.expression(exp.JSONExtract(this=this, expression=part)),
        TokenType.DARROW: lambda self, this, part: self.expression(exp.JSONExtractScalar(this=this, expression=part)),
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        name: PostgresParser.FUNCTION_PARSERS[name] for name in SPECIAL_SYNTAX
    }

    def _parse_interval_span(self, this: exp.Expr, parse_function_unit: bool = True) -> exp.Interval:
        return keep_interval(this, super()._parse_interval_span(this, parse_function_unit))


def keep_interval(written: exp.Expr, made: exp.Interval) -> exp.Interval:
    """The interval with its whole text: of one with a single unit sqlglot drops what else it holds (`1 day 02:30`)."""
    if not isinstance(written, exp.Literal) or not written.is_string or made.this is written:
        return made
    if exp.INTERVAL_STRING_RE.fullmatch(written.name) or isinstance(made.args.get("unit"), exp.IntervalSpan):
        return made
    made.set("this", written)
    made.set("unit", None)
    return made


def _read_arrow(node: exp.Lambda) -> exp.Expr:
    """`f(data -> 'a' ->> 'b')`: inside of a call sqlglot takes the first arrow for that of a function of elements."""
    column = exp.Column(this=node.expressions[0])
    first: exp.Expr = node.this
    while isinstance(first, exp.Binary | exp.Cast):
        first = first.this
    taken = exp.JSONExtract(this=column, expression=first.copy())
    if first is node.this:
        return taken
    first.replace(taken)
    whole: exp.Expr = node.this
    return whole


def tidy_postgres(tree: exp.Expr) -> exp.Expr:
    """The tree with names as PostgreSQL calls them, and with one form for what has two."""
    for name in tree.find_all(exp.Identifier):
        if not name.args.get("quoted"):
            name.set("this", name.name.lower())
    for arrow in list(tree.find_all(exp.Lambda)):
        if len(arrow.expressions) == 1:
            arrow.replace(_read_arrow(arrow))
    spread_records(tree)
    keep_order_of_lists(tree)
    spread_lists(tree)
    write_kin(tree)
    name_functions(tree)
    spread_rows(tree)
    spread_fractions(tree)
    for fetch in tree.find_all(exp.Fetch):
        options = fetch.args.get("limit_options")
        if options is None or not (options.args.get("percent") or options.args.get("with_ties")):
            count = fetch.args.get("count") or exp.Literal.number(1)
            fetch.replace(exp.Limit(expression=count))
    for bound in list(tree.find_all(exp.Limit, exp.Offset)):
        value = bound.args.get("expression")
        if isinstance(value, exp.Null) or (isinstance(value, exp.Var) and value.name.upper() == "ALL"):
            bound.pop()  # LIMIT ALL, LIMIT NULL and OFFSET NULL bound nothing
    for test in tree.find_all(exp.Is):
        if test.args.get("negate"):
            test.replace(exp.Not(this=exp.Is(this=test.this, expression=test.expression)))
    return tree
