"""Characters to sqlglot's tree, with the place of every node.

Spark's dialect or PostgreSQL's, with names in double quotes, but functions stay calls by the name that was written:
sqlglot's own nodes for them are made for translation between dialects and forget names and orders of arguments that
Spark's rules depend on.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser

from headrace.declare.query.fraction_lists import spread_fraction_lists
from headrace.declare.query.postgres_text import PostgresReader, PostgresText, keep_interval, tidy_postgres
from headrace.declare.query.regressions import write_regressions
from headrace.declare.query.spark_signs import SignReader
from headrace.declare.query.values import spread_values
from headrace.declare.query.window_groups import write_group_windows
from headrace.declare.query.window_text import name_window_tables, read_as_calls
from headrace.model.dialect import SqlDialect
from headrace.model.errors import InputError, Location, Problem

SPECIAL_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "OVERLAY")
"""Functions whose arguments are more than a list."""

DEEPEST = 150
"""Levels of nested expressions that are read: everyone after us recurses over them too."""

MOST_TOKENS, MOST_CONDITIONS = 20_000, 2_000
"""Words and signs of a query, and how many AND and OR are among them: planning more takes minutes, not seconds."""

ORDER_BY = "ORDER BY "
CLOSING = re.compile(r"\s*([)\]])")
QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.FROM, TokenType.VALUES)
LIST_ENDS = (
    TokenType.COMMA,
    TokenType.R_PAREN,
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.ORDER_BY,
)


class Dialect(Spark):
    """Spark's with `spark.sql.ansi.doubleQuotedIdentifiers`: names in double quotes or backquotes, text in single ones.

    A quote within either is written twice. In text a backslash escapes, too, as it always does in Spark.
    """

    class Tokenizer(Spark.Tokenizer):
        QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'"]
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]


class Parser(SignReader):
    """sqlglot's parser with functions as written."""

    STRICT_CAST = True
    # Else `array(a, b)[0]` would be read as the array [0].
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Func]]] = {}
    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in SPECIAL_SYNTAX
    }

    def _parse_interval_span(self, this: exp.Expr, parse_function_unit: bool = True) -> exp.Interval:
        return keep_interval(this, super()._parse_interval_span(this, parse_function_unit))


@dataclass(frozen=True, slots=True)
class Text:
    """A query, condition or expression as written, where its first character is, and in which dialect it is."""

    sql: str
    origin: Location
    dialect: SqlDialect = SqlDialect.SPARK

    def location(self, offset: int) -> Location:
        """The place of a character, counted from 0."""
        before = self.sql[:offset]
        line, column = before.count("\n"), offset - (before.rfind("\n") + 1)
        start = self.origin.column if line == 0 else 1
        return Location(self.origin.file, self.origin.line + line, start + column)

    def at(self, node: exp.Expr) -> Location:
        """Where a node begins; of nodes that left no trace, where the nearest one around them begins."""
        current: exp.Expr | None = node
        while current is not None:
            starts = [start for inner in current.walk() if (start := inner.meta.get("start")) is not None]
            if starts:
                return self.location(min(starts))
            current = current.parent
        return self.origin

    def written(self, node: exp.Expr) -> str:
        """The characters of a node, roughly: from its first to its last token that left a trace, and what closes it."""
        spans = [inner.meta for inner in node.walk() if "start" in inner.meta]
        if not spans:
            return ""
        start, end = min(m["start"] for m in spans), max(m["end"] for m in spans) + 1
        # Brackets leave no trace.
        while (closed := CLOSING.match(self.sql, end)) and _is_open(self.sql[start:end], closed[1]):
            end = closed.end()
        return self.sql[start:end]


def _is_open(text: str, bracket: str) -> bool:
    return text.count({")": "(", "]": "["}[bracket]) > text.count(bracket)


def parse_query(text: Text) -> exp.Query:
    """The tree of one query. Raises InputError for everything else."""
    tokens = _tokens(text)
    starts = (*QUERY_STARTS, TokenType.TABLE) if text.dialect is SqlDialect.POSTGRES else QUERY_STARTS
    if tokens and tokens[0].token_type not in starts:
        hint = 'a view is one query: it begins with "SELECT" or "WITH"'
        raise _mistake(text, tokens[0].start, f'a query cannot begin with "{tokens[0].text}"', hint)
    stem = "column" if text.dialect is SqlDialect.POSTGRES else "col"
    tree = spread_values(_parse_text(text, tokens, lambda parser: parser.parse(tokens, text.sql)), stem)
    tree = write_group_windows(name_window_tables(tree))
    if not isinstance(tree, exp.Query):
        raise _mistake(text, tokens[0].start, "this is not a query", 'a view is one query: "SELECT ... FROM ..."')
    return spread_fraction_lists(write_regressions(tree))


def parse_condition(text: Text) -> exp.Expr:
    """The tree of one condition, as after WHERE."""
    tokens = _tokens(text)
    return _parse_text(text, tokens, lambda parser: parser.parse_into(exp.Condition, tokens, text.sql))


def order_text(keys: str, where: Location) -> Text:
    """Sort keys without the words ORDER BY, which stand before them from now on, and before their place."""
    if not keys.strip():
        raise InputError([Problem("the text is empty", where)])
    return Text(ORDER_BY + keys, replace(where, column=where.column - len(ORDER_BY)))


def parse_order(text: Text) -> exp.Order:
    """The tree of an `order_text`."""
    tokens = _tokens(text)
    tree = _parse_text(text, tokens, lambda parser: parser.parse_into(exp.Order, tokens, text.sql))
    assert isinstance(tree, exp.Order)
    return tree


def statement(text: Text) -> tuple[int, int]:
    """Where the one statement of a text begins and ends, without comments around it and the semicolon after it."""
    tokens = _tokens(text)
    return tokens[0].start, tokens[-1].end + 1


def double_quoted_names(text: Text) -> list[tuple[int, int, str]]:
    """The names in double quotes: where each begins and ends, and the name itself."""
    return [
        (token.start, token.end + 1, token.text)
        for token in _tokens(text)
        if token.token_type == TokenType.IDENTIFIER and text.sql[token.start] == '"'
    ]


def text_hint(name: str) -> str:
    """A hint for a name in quotes that is none: it was probably meant as text."""
    doubled = name.replace("'", "''")
    return f"text is written in single quotes: '{doubled}'"


def is_quoted(node: exp.Expr) -> bool:
    """Whether a node is a name alone, written in quotes."""
    name = node.this if isinstance(node, exp.Column) and len(node.parts) == 1 else node
    return isinstance(name, exp.Identifier) and bool(name.args.get("quoted"))


def _parse_text(
    text: Text, tokens: list[Token], parse: Callable[[SparkParser | PostgresReader], list[exp.Expr | None]]
) -> exp.Expr:
    if not tokens:
        raise _mistake(text, 0, "the text is empty", None)
    try:
        trees = parse(_make_parser(text))
    except ParseError as error:
        raise _syntax_error(text, error) from error
    except RecursionError as error:
        raise too_deep(text.origin) from error
    except (SqlglotError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # On some wrong texts sqlglot stumbles over itself instead of reporting them.
        raise _mistake(text, tokens[0].start, "this is not valid SQL", None) from error
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise _mistake(text, tokens[0].start, "this is not valid SQL", None)
    return tidy_postgres(tree) if text.dialect is SqlDialect.POSTGRES else tree


def _make_parser(text: Text) -> Parser | PostgresReader:
    if text.dialect is SqlDialect.POSTGRES:
        return PostgresReader(dialect=PostgresText())
    return Parser(dialect=Dialect())


def too_deep(where: Location) -> InputError:
    """The mistake of queries whose nesting exceeds what can be followed."""
    hint = f"expressions may be nested {DEEPEST} levels deep, and queries less; IN (...) takes the place of many ORs"
    return InputError([Problem("the query is nested too deeply", where, hint)])


def _tokens(text: Text) -> list[Token]:
    """The tokens of one statement, without the semicolon that may end it."""
    try:
        tokens = (PostgresText() if text.dialect is SqlDialect.POSTGRES else Dialect()).tokenize(text.sql)
    except SqlglotError as error:
        raise _token_error(text, error) from error
    _check_length(text, tokens)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    tokens = read_as_calls(tokens)
    for token, following in itertools.pairwise(tokens):
        if token.token_type == TokenType.SEMICOLON:
            raise _mistake(text, following.start, "a second statement begins here", "one file holds one query")
        if token.token_type == TokenType.COMMA and following.token_type in LIST_ENDS:
            raise _mistake(text, token.start, 'syntax error: nothing follows ","', None)
        _read_window_as_name(token, following)
    for token in tokens:
        if token.token_type == TokenType.RAW_STRING and text.sql[token.start + 1] == '"':
            raise _mistake(
                text, token.start, f'r"{token.text}" is not text', text_hint(token.text).replace(" '", " r'")
            )
    if tokens and tokens[-1].token_type == TokenType.COMMA:
        raise _mistake(text, tokens[-1].start, 'syntax error: nothing follows ","', None)
    return tokens


def _check_length(text: Text, tokens: list[Token]) -> None:
    if len(tokens) > MOST_TOKENS:
        what = f"the query has {len(tokens):,} words and signs, and at most {MOST_TOKENS:,} are read"
        raise InputError([Problem(what, text.origin, "put long lists of values in a table, and join that")])
    conditions = sum(token.token_type in (TokenType.AND, TokenType.OR) for token in tokens)
    if conditions > MOST_CONDITIONS:
        what = f"the query has {conditions:,} AND and OR, and at most {MOST_CONDITIONS:,} are read"
        raise InputError(
            [Problem(what, text.origin, "IN (...) takes the place of many ORs, NOT IN (...) of many ANDs")]
        )


def _read_window_as_name(token: Token, following: Token) -> None:
    """`window(...)`, `window.start` and `f(window)` are names; only `WINDOW w AS` is the clause."""
    if token.token_type == TokenType.WINDOW and following.token_type in (TokenType.L_PAREN, TokenType.DOT):
        token.token_type = TokenType.VAR
    if following.token_type == TokenType.WINDOW and token.token_type == TokenType.L_PAREN:
        following.token_type = TokenType.VAR


def _mistake(text: Text, offset: int, message: str, hint: str | None) -> InputError:
    return InputError([Problem(message, text.location(offset), hint)])


def _token_error(text: Text, error: SqlglotError) -> InputError:
    cause = str(error.__cause__ or "")
    missing = re.match(r"Missing (\S+) from (\d+):", cause)
    if missing is None:
        return _mistake(text, 0, "this is not valid SQL", None)
    start = text.sql.rfind(missing[1]) if len(missing[1]) == 1 else 0
    kind = "text" if missing[1] == "'" else "name" if len(missing[1]) == 1 else "comment"
    return _mistake(text, max(start, 0), f"a {kind} that begins here is not closed by {missing[1]}", None)


def _syntax_error(text: Text, error: ParseError) -> InputError:
    found = error.errors[0] if error.errors else {}
    before, near = found.get("start_context") or "", found.get("highlight") or ""
    start = text.sql.find(before + near) if before else 0
    offset = start + len(before) if start >= 0 else 0
    quoted = len(near) > 1 and near[0] == near[-1] == '"'
    message = f"syntax error at {near}" if quoted else f'syntax error at "{near}"' if near else "syntax error"
    detail = _detail(found.get("description") or "")
    hint = text_hint(near[1:-1]) if quoted else None
    return _mistake(text, offset, f"{message}: {detail}" if detail else message, hint)


def _detail(description: str) -> str:
    """What the parser missed, in words of SQL."""
    if description.startswith(("Required keyword", "Expected table name")):
        return "something is missing here"
    if description.startswith(("Expecting", "Expected TYPE")):
        return description[0].lower() + description[1:]
    return ""
