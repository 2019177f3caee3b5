"""Random scalar expressions and aggregates as SQL text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hypothesis import strategies as st


class Family(StrEnum):
    """Types that behave alike; how many digits a decimal has is left to the reader of the query."""

    INT = "int"
    BIGINT = "bigint"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BOOLEAN = "boolean"


NUMBERS = (Family.INT, Family.BIGINT, Family.DOUBLE, Family.DECIMAL)


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column as one writes it."""

    text: str
    family: Family

    def of(self, alias: str) -> SqlColumn:
        return SqlColumn(f"{alias}.{self.text}", self.family)


LITERALS: dict[Family, tuple[str, ...]] = {
    Family.INT: ("0", "1", "2", "-1", "CAST(NULL AS INT)"),
    Family.BIGINT: ("CAST(1 AS BIGINT)", "3000000000"),
    Family.DOUBLE: ("1.5e0", "CAST(2 AS DOUBLE)"),
    Family.DECIMAL: ("1.5", "0.05", "CAST(2 AS DECIMAL(10, 2))"),
    Family.STRING: ("'a'", "''", "'日本'", "'Ab'", "CAST(NULL AS STRING)"),
    Family.DATE: ("DATE '2024-02-29'", "CAST('2023-12-31' AS DATE)"),
    Family.TIMESTAMP: ("TIMESTAMP '2024-02-29 12:30:15'", "TIMESTAMP '1969-12-31 23:59:59'"),
    Family.BOOLEAN: ("TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"),
}
"""Written the same in every dialect, or translated."""

FORMS: dict[Family, tuple[str, ...]] = {
    Family.INT: (
        *("LENGTH({string})", "CAST(EXTRACT(YEAR FROM {date}) AS INT)", "({int} + 1)", "({int} % 3)"),
        *("ABS({int})", "(- {int})", "({int} * 2 - {int})", "CAST({boolean} AS INT)"),
        "CAST(EXTRACT(HOUR FROM {timestamp}) AS INT)",
    ),
    Family.BIGINT: ("CAST({int} AS BIGINT)", "({bigint} + {int})", "({bigint} - 1)"),
    Family.DOUBLE: ("({double} + 1.5e0)", "({double} * {int})", "CAST({decimal} AS DOUBLE)", "ABS({double})"),
    Family.DECIMAL: (
        "({decimal} + {decimal})",
        "({decimal} * 2)",
        "({decimal} - {int})",
        "CAST({int} AS DECIMAL(12, 3))",
    ),
    Family.STRING: (
        *("CONCAT({string}, {string})", "({string} || 'x')", "SUBSTRING({string}, 1, 1)", "TRIM({string})"),
        *("REPLACE({string}, 'a', 'bb')", "CAST({int} AS STRING)", "LEFT({string}, 1)", "REVERSE({string})"),
        *("LPAD({string}, 3, '*')", "CAST({date} AS STRING)", "SUBSTRING({string}, 2)"),
    ),
    Family.DATE: ("CAST(DATE_ADD({date}, 1) AS DATE)", "CAST({timestamp} AS DATE)", "LAST_DAY({date})"),
    Family.TIMESTAMP: (
        "DATE_TRUNC('HOUR', {timestamp})",
        "({timestamp} + INTERVAL '1' DAY)",
        "CAST({date} AS TIMESTAMP)",
    ),
    Family.BOOLEAN: (
        *("({boolean} AND {boolean})", "({boolean} OR {boolean})", "(NOT {boolean})", "({any} IS NULL)"),
        *(
            "({same} = {same})",
            "({same} <> {same})",
            "({same} < {same})",
            "({same} >= {same})",
            "({number} > {number})",
        ),
        *("({same} IN ({same}, {same}))", "({number} BETWEEN {number} AND {number})", "({string} LIKE 'a%')"),
        *("({string} LIKE '%b_')", "({any} IS NOT NULL)", "({boolean} IS TRUE)"),
    ),
}
SPARK_FORMS: dict[Family, tuple[str, ...]] = {
    Family.INT: (
        "DATEDIFF({date}, {date})",
        "DAYOFWEEK({date})",
        "LOCATE('a', {string})",
        "EXTRACT(QUARTER FROM {date})",
        *("YEAR({date})", "MONTH({date})", "DAY({date})", "HOUR({timestamp})"),
    ),
    Family.BIGINT: ("({int} DIV 2)", "CEIL({double})", "FLOOR({int} / 2)", "UNIX_TIMESTAMP({timestamp})"),
    Family.DOUBLE: (
        "({int} / 3)",
        "ROUND({double}, 1)",
        "SQRT(ABS({int}))",
        "({int} / NULLIF({int}, 0))",
        "POWER({int}, 2)",
    ),
    Family.DECIMAL: (
        "({decimal} / 3)",
        "ROUND({decimal}, 1)",
        "({decimal} * {decimal})",
        "({decimal} % 2)",
        "CEIL({decimal})",
    ),
    Family.STRING: (
        *(
            "UPPER({string})",
            "LOWER({string})",
            "INITCAP({string})",
            "SPLIT_PART({string}, 'a', 1)",
            "SUBSTRING({string}, -1)",
        ),
        *(
            "CAST({double} AS STRING)",
            "CAST({timestamp} AS STRING)",
            "CONCAT_WS('-', {string}, {string})",
            "MD5({string})",
        ),
        *("DATE_FORMAT({timestamp}, 'yyyy-MM')", "RIGHT({string}, 2)", "TRANSLATE({string}, 'ab', 'x')"),
        *("REGEXP_EXTRACT({string}, '([a-z]+)', 1)", "CAST({boolean} AS STRING)", "CAST({decimal} AS STRING)"),
    ),
    Family.DATE: (
        "ADD_MONTHS({date}, 1)",
        "TO_DATE({timestamp})",
        "MAKE_DATE(2024, 2, 29)",
        "({date} + INTERVAL '1' MONTH)",
    ),
    Family.TIMESTAMP: ("DATE_TRUNC('WEEK', {timestamp})", "({timestamp} - INTERVAL '90' MINUTE)"),
    Family.BOOLEAN: (
        *("({same} <=> {same})", "({string} LIKE '10\\\\%%')", "STARTSWITH({string}, 'a')", "({string} RLIKE '^[ab]')"),
        *("CONTAINS({string}, 'a')", "({boolean} IS NOT FALSE)"),
    ),
}
"""Forms that only Spark and we understand alike."""

CHOICES = (
    *("CASE WHEN {boolean} THEN {own} ELSE {own} END", "COALESCE({own}, {own})", "NULLIF({own}, {own})"),
    *("CASE WHEN {boolean} THEN {own} END", "GREATEST({own}, {own})", "IF({boolean}, {own}, {own})"),
)


@dataclass(frozen=True, slots=True)
class ScalarText:
    """Draws expressions over columns in scope."""

    draw: st.DrawFn
    columns: tuple[SqlColumn, ...]
    portable: bool

    def make(self, family: Family, depth: int) -> str:
        """An expression of the family with at most `depth` levels of functions."""
        kind = self.draw(st.sampled_from(("leaf", "leaf", "own", "own", "choice"))) if depth else "leaf"
        if kind == "leaf":
            return self.leaf(family)
        forms = CHOICES if kind == "choice" else FORMS[family] + (() if self.portable else SPARK_FORMS[family])
        return self.fill(self.draw(st.sampled_from(forms)), family, depth - 1)

    def fill(self, form: str, family: Family, depth: int) -> str:
        """The form with expressions in its places; `own` is this family, `same` one family for the whole form."""
        same = self.draw(st.sampled_from(tuple(Family)))
        stands_for = {"own": family, "same": same}
        text = form
        while "{" in text:
            place = text[text.index("{") + 1 : text.index("}")]
            text = text.replace(f"{{{place}}}", self.make(self.family_of(place, stands_for), depth), 1)
        return text

    def family_of(self, place: str, stands_for: dict[str, Family]) -> Family:
        if place == "any":
            return self.draw(st.sampled_from(tuple(Family)))
        if place == "number":
            return self.draw(st.sampled_from(NUMBERS))
        return stands_for.get(place) or Family(place)

    def leaf(self, family: Family) -> str:
        column = self.column(family)
        if column is not None and self.draw(st.sampled_from((True, True, True, False))):
            return column
        return self.draw(st.sampled_from(LITERALS[family]))

    def column(self, family: Family) -> str | None:
        found = [column.text for column in self.columns if column.family == family]
        return self.draw(st.sampled_from(found)) if found else None

    def reads_a_column(self, text: str) -> bool:
        return any(column.text in text for column in self.columns)

    def aggregate(self, *, inexact: bool) -> tuple[str, Family]:
        """An aggregate and the family of its values; sums and averages of doubles only where `inexact` is allowed."""
        function = self.draw(st.sampled_from(("COUNT(*)", "COUNT", "COUNT", "SUM", "SUM", "AVG", "MIN", "MAX", "")))
        if function == "COUNT(*)":
            return function, Family.BIGINT
        if not function:
            return self._other_aggregate(inexact)
        family = self.draw(st.sampled_from(self._arguments(function, inexact)))
        distinct = self.draw(st.sampled_from(("", "", "DISTINCT ")))
        condition = self.draw(st.sampled_from(("", "", "", f" FILTER (WHERE {self.make(Family.BOOLEAN, 1)})")))
        return f"{function}({distinct}{self.make(family, 1)}){condition}", _result(function, family)

    def _other_aggregate(self, inexact: bool) -> tuple[str, Family]:
        """Aggregates that have one answer everywhere, apart from the last digits of doubles where `inexact`."""
        doubles: tuple[str, ...] = ("STDDEV_SAMP", "VAR_POP", "COVAR_SAMP", "PERCENTILE_CONT") if inexact else ()
        doubles += ("CORR",) if inexact and not self.portable else ()  # engines differ where nothing varies
        choices = (*doubles, "BOOL_AND", "BOOL_OR", "BIT_AND", "BIT_XOR", "LISTAGG", "COUNT DISTINCT")
        condition = self.draw(st.sampled_from(("", "", f" FILTER (WHERE {self.make(Family.BOOLEAN, 1)})")))
        match self.draw(st.sampled_from(choices)):
            case "STDDEV_SAMP" | "VAR_POP" as function:
                return f"{function}({self.make(Family.INT, 1)}){condition}", Family.DOUBLE
            case "CORR" | "COVAR_SAMP" as function:
                pair = f"{self.make(Family.INT, 1)}, {self.make(Family.INT, 1)}"
                return f"{function}({pair}){condition}", Family.DOUBLE
            case "PERCENTILE_CONT":
                fraction = self.draw(st.sampled_from(("0.25", "0.5", "1.0")))
                order = f"{self.make(Family.INT, 1)}{self.draw(st.sampled_from(('', ' DESC')))}"
                return f"PERCENTILE_CONT({fraction}) WITHIN GROUP (ORDER BY {order}){condition}", Family.DOUBLE
            case "BOOL_AND" | "BOOL_OR" as function:
                return f"{function}({self.make(Family.BOOLEAN, 1)}){condition}", Family.BOOLEAN
            case "LISTAGG":
                text = self.make(Family.STRING, 1)
                order = f"{text}{self.draw(st.sampled_from(('', ' DESC')))}"
                return f"LISTAGG({text}, '/') WITHIN GROUP (ORDER BY {order}){condition}", Family.STRING
            case "COUNT DISTINCT":
                both = f"{self.make(Family.INT, 1)}, {self.make(Family.STRING, 1)}"
                return ("COUNT(*)" if self.portable else f"COUNT(DISTINCT {both}){condition}"), Family.BIGINT
            case function:
                return f"{function}({self.make(Family.INT, 1)}){condition}", Family.INT

    def _arguments(self, function: str, inexact: bool) -> tuple[Family, ...]:
        if function == "SUM":
            return NUMBERS if inexact else (Family.INT, Family.DECIMAL)
        if function == "AVG":
            exact = (Family.INT,) if self.portable else (Family.INT, Family.DECIMAL)
            return (*exact, Family.DOUBLE) if inexact else exact
        if self.portable and function in ("MIN", "MAX"):
            return tuple(family for family in Family if family != Family.BOOLEAN)
        return tuple(Family)

    def compare(self, text: str, family: Family) -> str:
        operator = self.draw(st.sampled_from((">", "<=", "=", "<>")))
        return f"{text} {operator} {self.draw(st.sampled_from(LITERALS[family]))}"


def _result(function: str, family: Family) -> Family:
    if function == "COUNT":
        return Family.BIGINT
    if function == "AVG":
        return Family.DECIMAL if family == Family.DECIMAL else Family.DOUBLE
    return Family.BIGINT if function == "SUM" and family == Family.INT else family
