"""Random queries as SQL text, in the dialect and subset that `declare.sql` reads.

Queries have one answer: a top-k orders by every column, and inexact aggregates (sums of doubles) are only in the
outermost query, where nothing is computed from them. With `portable`, constructs are left out on which DuckDB or
PostgreSQL differ from Spark by design: division and averages of decimals (number of digits), casts of doubles and
timestamps to text, case of non-ASCII text, escapes in LIKE, windows, and full joins on anything but equalities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import assume
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.model.errors import InputError
from headrace.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type
from headrace.testing.query_scalars import Family, ScalarText, SqlColumn
from headrace.testing.tables import MONEY, SCHEMA, Schema

FAMILIES: dict[Type, Family] = {
    INT: Family.INT,
    BIGINT: Family.BIGINT,
    DOUBLE: Family.DOUBLE,
    MONEY: Family.DECIMAL,
    STRING: Family.STRING,
    DATE: Family.DATE,
    TIMESTAMP: Family.TIMESTAMP,
    BOOLEAN: Family.BOOLEAN,
}
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")


@st.composite
def queries(draw: st.DrawFn, schema: Schema = SCHEMA, *, portable: bool = False, depth: int = 2) -> str:
    """A query over the schema's sources. With `portable`, one that DuckDB and PostgreSQL understand alike."""
    text = QueryMaker(draw, schema, portable).query(draw(st.sampled_from(range(depth + 1))), outermost=True).text
    assume(not _orders_by_constants(text, schema))
    return text


def _orders_by_constants(text: str, schema: Schema) -> bool:
    """An order that orders nothing is refused; that all its columns are constant is seen only once they are read."""
    try:
        read_query(text, schema)
    except InputError as error:
        return "ORDER BY" in str(error)
    return False


@dataclass(frozen=True, slots=True)
class RandomQuery:
    """A query and its columns, under the names that it gives them."""

    text: str
    columns: tuple[SqlColumn, ...]


@dataclass(frozen=True, slots=True)
class From:
    """A FROM clause and the columns that it brings into scope."""

    text: str
    columns: tuple[SqlColumn, ...]


@dataclass(slots=True)
class QueryMaker:
    """Draws one query; names are numbered, so that none hides another."""

    draw: st.DrawFn
    schema: Schema
    portable: bool
    used: int = field(default=0)

    def query(self, depth: int, *, outermost: bool = False) -> RandomQuery:
        makers: list[Callable[[int, bool], RandomQuery]] = [
            self.select,
            self.select,
            self.distinct,
            self.grouped,
            self.grouped,
            self.total,
            self.combine_sets,
            self.first_of_group,
            self.first_of_all,
            self.beside_each_other,
        ]
        if not self.portable:
            makers.append(self.make_windowed)
        return self.draw(st.sampled_from(makers))(depth, outermost)

    def select(self, depth: int, outermost: bool) -> RandomQuery:
        families = self.draw(st.lists(st.sampled_from(tuple(Family)), min_size=1, max_size=4))
        return self.select_of(tuple(families), depth)

    def select_of(self, families: tuple[Family, ...], depth: int) -> RandomQuery:
        """A plain select with columns of these families."""
        source = self.from_clause(depth)
        scalars = self.scalars(source)
        items = [(scalars.make(family, 2), SqlColumn(self.name("c"), family)) for family in families]
        if self.draw(st.sampled_from((True, False, False, False))):
            items.append(self.scalar_subquery(source))
        listed = ", ".join(f"{text} AS {column.text}" for text, column in items)
        return RandomQuery(
            f"SELECT {listed} FROM {source.text}{self.where(source)}", tuple(column for _, column in items)
        )

    def distinct(self, depth: int, outermost: bool) -> RandomQuery:
        inner = self.select(depth, outermost)
        return RandomQuery(inner.text.replace("SELECT", "SELECT DISTINCT", 1), inner.columns)

    def grouped(self, depth: int, outermost: bool) -> RandomQuery:
        source = self.from_clause(depth)
        scalars = self.scalars(source)
        families = self.draw(st.lists(st.sampled_from(tuple(Family)), min_size=1, max_size=2))
        keys = [(scalars.column(family) or scalars.make(family, 1), family) for family in families]
        keys = [(text, family) for text, family in keys if scalars.reads_a_column(text)]
        if not keys:
            return self.total(depth, outermost)
        aggregates = [self.aggregate(scalars, outermost) for _ in range(self.draw(st.integers(0, 3)))]
        items = [(text, SqlColumn(self.name("k"), family)) for text, family in keys] + aggregates
        listed = ", ".join(f"{text} AS {column.text}" for text, column in items)
        grouping = f" GROUP BY {self.sets([text for text, _ in keys])}{self.having(scalars)}"
        text = f"SELECT {listed} FROM {source.text}{self.where(source)}{grouping}"
        return RandomQuery(text, tuple(column for _, column in items))

    def sets(self, keys: list[str]) -> str:
        """Keys, or sets of them. Over nothing Spark has no row for the empty set, where others have one."""
        listed, first = ", ".join(keys), keys[0]
        choices = [listed, listed, listed, f"GROUPING SETS (({listed}), ({first}))"]
        if not self.portable:
            choices += [f"ROLLUP ({listed})", f"CUBE ({listed})", f"{first}, GROUPING SETS ((), ({listed}))"]
        return self.draw(st.sampled_from(choices))

    def total(self, depth: int, outermost: bool) -> RandomQuery:
        """Aggregates of everything: one row."""
        source = self.from_clause(depth)
        scalars = self.scalars(source)
        items = [self.aggregate(scalars, outermost) for _ in range(self.draw(st.integers(1, 3)))]
        listed = ", ".join(f"{text} AS {column.text}" for text, column in items)
        return RandomQuery(
            f"SELECT {listed} FROM {source.text}{self.where(source)}", tuple(column for _, column in items)
        )

    def aggregate(self, scalars: ScalarText, outermost: bool) -> tuple[str, SqlColumn]:
        text, family = scalars.aggregate(inexact=outermost)
        return text, SqlColumn(self.name("a"), family)

    def having(self, scalars: ScalarText) -> str:
        if self.draw(st.booleans()):
            return ""
        text, family = scalars.aggregate(inexact=False)
        return f" HAVING {scalars.compare(text, family)}"

    def combine_sets(self, depth: int, outermost: bool) -> RandomQuery:
        first = self.query(max(depth - 1, 0))
        families = tuple(column.family for column in first.columns)
        second = self.select_of(families, max(depth - 1, 0))
        columns = second.columns[: len(families)]
        listed = ", ".join(column.text for column in columns)
        other = f"SELECT {listed} FROM ({second.text}) AS {self.name('u')}"
        operator = self.draw(st.sampled_from(SETS))
        return RandomQuery(f"{self.plain(first)} {operator} {other}", first.columns)

    def plain(self, query: RandomQuery) -> str:
        """Fit to stand beside UNION ALL and the like."""
        return f"SELECT * FROM ({query.text}) AS {self.name('u')}"

    def first_of_group(self, depth: int, outermost: bool) -> RandomQuery:
        inner, alias, outer = self.query(max(depth - 1, 0)), self.name("q"), self.name("q")
        rank = SqlColumn(self.name("n"), Family.INT)
        function = self.draw(st.sampled_from(("ROW_NUMBER", "RANK", "DENSE_RANK")))
        columns = inner.columns if function == "ROW_NUMBER" else inner.columns[:1]
        partition = self.draw(st.sampled_from(("", f"PARTITION BY {alias}.{inner.columns[-1].text} ")))
        over = f"{function}() OVER ({partition}ORDER BY {self.order(columns, alias)})"
        text = (
            f"SELECT * FROM (SELECT {alias}.*, {over} AS {rank.text} FROM ({inner.text}) AS {alias}) AS {outer} "
            f"WHERE {outer}.{rank.text} <= {self.draw(st.integers(1, 3))}"
        )
        return RandomQuery(text, (*inner.columns, rank))

    def beside_each_other(self, depth: int, outermost: bool) -> RandomQuery:
        """Window functions. Those that look at single rows order by every column."""
        inner, alias = self.query(max(depth - 1, 0)), self.name("q")
        partition = self.draw(st.sampled_from(("", f"PARTITION BY {alias}.{inner.columns[-1].text} ")))
        columns = tuple(column for column in inner.columns)
        by_all = f"({partition}ORDER BY {self.order(columns, alias)}"
        peers = f"({partition}ORDER BY {self.order(columns[:1], alias)}"
        made = [
            self.window_function(columns, alias, (partition, by_all, peers))
            for _ in range(self.draw(st.integers(1, 2)))
        ]
        listed = ", ".join(f"{text} AS {column.text}" for text, column in made)
        text = f"SELECT {alias}.*, {listed} FROM ({inner.text}) AS {alias}"
        return RandomQuery(text, (*inner.columns, *(column for _, column in made)))

    def window_function(
        self, columns: tuple[SqlColumn, ...], alias: str, windows: tuple[str, str, str]
    ) -> tuple[str, SqlColumn]:
        partition, by_all, peers = windows
        value, name = self.draw(st.sampled_from(columns)), self.name("w")
        text, rows = f"{alias}.{value.text}", f"ROWS BETWEEN {self.draw(st.sampled_from(FRAME_STARTS))} AND CURRENT ROW"
        choices = (
            (f"CAST(row_number() OVER {by_all}) AS BIGINT)", Family.BIGINT),
            (f"CAST(rank() OVER {peers}) AS BIGINT)", Family.BIGINT),
            (f"CAST(dense_rank() OVER {peers}) AS BIGINT)", Family.BIGINT),
            (f"lag({text}, {self.draw(st.integers(1, 2))}) OVER {by_all})", value.family),
            (f"lead({text}) OVER {by_all})", value.family),
            (f"first_value({text}) OVER {by_all} {rows})", value.family),
            (f"count({text}) OVER {by_all} {rows})", Family.BIGINT),
            (f"count(*) OVER {peers})", Family.BIGINT),
            (f"max({text}) OVER ({partition})", value.family),
            (f"min({text}) OVER {peers})", value.family),
        )
        found, family = self.draw(st.sampled_from(choices))
        return found, SqlColumn(name, family)

    def first_of_all(self, depth: int, outermost: bool) -> RandomQuery:
        inner, alias = self.query(max(depth - 1, 0)), self.name("q")
        limit = f"LIMIT {self.draw(st.integers(1, 3))}{self.draw(st.sampled_from(('', '', ' OFFSET 1')))}"
        text = f"SELECT * FROM ({inner.text}) AS {alias} ORDER BY {self.order(inner.columns, alias)} {limit}"
        return RandomQuery(text, inner.columns)

    def order(self, columns: tuple[SqlColumn, ...], alias: str) -> str:
        return ", ".join(
            f"{alias}.{column.text} {self.draw(st.sampled_from(('ASC', 'DESC')))} "
            f"NULLS {self.draw(st.sampled_from(('FIRST', 'LAST')))}"
            for column in columns
        )

    def make_windowed(self, depth: int, outermost: bool) -> RandomQuery:
        source = self.from_clause(depth)
        scalars = self.scalars(source)
        time = scalars.column(Family.TIMESTAMP)
        if time is None:
            return self.total(depth, outermost)
        window = f"{self.draw(st.sampled_from(('window', 'session_window')))}({time}, {{}})"
        lengths = WINDOWS if window.startswith("window") else GAPS
        window = window.format(self.draw(st.sampled_from(lengths)))
        aggregates = [self.aggregate(scalars, outermost) for _ in range(self.draw(st.integers(1, 2)))]
        start = SqlColumn(self.name("w"), Family.TIMESTAMP)
        listed = ", ".join(f"{text} AS {column.text}" for text, column in aggregates)
        text = (
            f"SELECT {window}.start AS {start.text}, {listed} FROM {source.text}{self.where(source)} GROUP BY {window}"
        )
        return RandomQuery(text, (start, *(column for _, column in aggregates)))

    def from_clause(self, depth: int) -> From:
        left = self.table(depth)
        for _ in range(self.draw(st.sampled_from((0, 0, 1, 1, 2)))):
            left = self.joined(left, self.table(max(depth - 1, 0)))
        return left

    def table(self, depth: int) -> From:
        alias = self.name("t")
        if depth > 0 and self.draw(st.booleans()):
            inner = self.query(depth - 1)
            return From(f"({inner.text}) AS {alias}", tuple(c.of(alias) for c in inner.columns))
        source = self.schema[self.draw(st.sampled_from(sorted(self.schema)))]
        columns = tuple(SqlColumn(f"{alias}.{c.name}", FAMILIES[c.type]) for c in source.columns or ())
        return From(f"{source.name} AS {alias}", columns)

    def joined(self, left: From, right: From) -> From:
        both = left.columns + right.columns
        equal = self.equality(left, right)
        kind = self.draw(st.sampled_from(JOINS)) if equal else "CROSS JOIN"
        if kind == "CROSS JOIN":
            return From(f"{left.text} CROSS JOIN {right.text}", both)
        condition = equal
        if not (self.portable and kind == "FULL JOIN") and self.draw(st.sampled_from((True, False, False))):
            condition = f"{equal} AND {ScalarText(self.draw, both, self.portable).make(Family.BOOLEAN, 1)}"
        return From(f"{left.text} {kind} {right.text} ON {condition}", both)

    def equality(self, left: From, right: From) -> str:
        """An equality of two columns of one family, empty if there is no such pair."""
        pairs = [(a, b) for a in left.columns for b in right.columns if a.family == b.family]
        if not pairs:
            return ""
        a, b = self.draw(st.sampled_from(pairs))
        operator = "=" if self.portable else self.draw(st.sampled_from(("=", "=", "=", "<=>")))
        return f"{a.text} {operator} {b.text}"

    def where(self, source: From) -> str:
        parts = []
        if self.draw(st.booleans()):
            parts.append(self.scalars(source).make(Family.BOOLEAN, 2))
        if self.draw(st.sampled_from((True, False, False))):
            parts.append(self.subquery_condition(source))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def subquery_condition(self, source: From) -> str:
        inner = self.table(0)
        equal = self.equality(inner, source)
        more = f" AND {self.scalars(inner).make(Family.BOOLEAN, 1)}" if self.draw(st.booleans()) else ""
        if not equal:
            return "TRUE"
        negation = self.draw(st.sampled_from(("", "NOT ")))
        if self.draw(st.booleans()):
            return f"{negation}EXISTS (SELECT 1 FROM {inner.text} WHERE {equal}{more})"
        within, without = equal.replace("<=>", "=").split(" = ")
        condition = more.replace(" AND ", " WHERE ", 1)
        return f"{without} {negation}IN (SELECT {within} FROM {inner.text}{condition})"

    def scalar_subquery(self, source: From) -> tuple[str, SqlColumn]:
        """An aggregate of the rows of another table that go with this one."""
        inner = self.table(0)
        equal = self.equality(inner, source).replace("<=>", "=")
        text, family = ScalarText(self.draw, inner.columns, self.portable).aggregate(inexact=False)
        where = f" WHERE {equal}" if equal else ""
        return f"(SELECT {text} FROM {inner.text}{where})", SqlColumn(self.name("c"), family)

    def scalars(self, source: From) -> ScalarText:
        return ScalarText(self.draw, source.columns, self.portable)

    def name(self, stem: str) -> str:
        self.used += 1
        return f"{stem}{self.used}"


SETS = ("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
GAPS = ("'1 second'", "'10 minutes'", "'1 day'", "'40 days'")
FRAME_STARTS = ("UNBOUNDED PRECEDING", "2 PRECEDING", "CURRENT ROW")
WINDOWS = ("'10 minutes'", "'1 day'", "'30 minutes', '10 minutes'", "'1 hour', '30 minutes', '5 minutes'")
