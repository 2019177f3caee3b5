import datetime as dt
import decimal

import pytest

from headrace.model.expr import TRUE, Call, Column, Literal
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Matching,
    Negate,
    Order,
    Output,
    Projection,
    Ranking,
    Scan,
    TopK,
    UnionAll,
    Version,
    Windows,
)
from headrace.model.show import show, show_expr
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    YEAR_MONTH,
    Decimal,
    Type,
)

A, B, C = (Column(name, INT) for name in "abc")
FLAG = Column("flag", BOOLEAN)


def call(function: str, *arguments: Column | Literal | Call, type_: Type = INT) -> Call:
    return Call(function, arguments, type_)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (call("*", call("+", A, B), C), "(a + b) * c"),
        (call("+", A, call("*", B, C)), "a + b * c"),
        (call("-", call("-", A, B), C), "a - b - c"),
        (call("-", A, call("-", B, C)), "a - (b - c)"),
        (call("<=>", call("=", A, B), TRUE), "(a = b) <=> true"),
        (call("and", call("or", FLAG, FLAG), call("not", FLAG)), "(flag or flag) and not flag"),
        (call("not", call("and", FLAG, FLAG)), "not (flag and flag)"),
        (call("is_null", call("+", A, B)), "a + b is null"),
        (call("not", call("is_null", A)), "a is not null"),
        (call("negate", call("+", A, B)), "-(a + b)"),
        (call("in", A, Literal(1, INT), Literal(None, INT)), "a in (1, null)"),
        (call("like", Column("s", STRING), Literal("it's", STRING)), "s like 'it''s'"),
        (call("like", A, B, C), "like(a, b, c)"),
        (call("case", FLAG, A, FLAG, B, Literal(None, INT)), "case when flag then a when flag then b end"),
        (call("case", FLAG, A, B), "case when flag then a else b end"),
        (call("cast", A, type_=Decimal(5, 2)), "cast(a as decimal(5,2))"),
        (call("python:score@3", A), "python:score@3(a)"),
        (Literal(True, BOOLEAN), "true"),
        (Literal(1.5, DOUBLE), "1.5"),
        (Literal(decimal.Decimal("1.50"), Decimal(3, 2)), "1.50"),
        (Literal(dt.date(2024, 2, 29), DATE), "date '2024-02-29'"),
        (Literal(dt.datetime(2024, 2, 29, 12), TIMESTAMP), "timestamp '2024-02-29 12:00:00'"),
        (Literal(dt.timedelta(days=7), DAY_TIME), "interval '7 days'"),
        (Literal(dt.timedelta(minutes=90), DAY_TIME), "interval '1:30:00'"),
        (Literal(14, YEAR_MONTH), "interval '14 months'"),
        (Literal(b"\x01\xff", BINARY), "x'01ff'"),
    ],
)
def test_an_expression_reads_like_sql(expr: Column | Literal | Call, text: str):
    assert show_expr(expr) == text


def test_every_operator_has_its_line():
    orders = Scan("orders", "orders", ("a",), (INT,))
    changed = Scan("orders", "o", ("a",), (INT,), Version.CHANGE)
    tree = Projection(
        TopK(
            UnionAll((Distinct(Filter(orders, TRUE)), Negate(changed))),
            (A,),
            (Order(B, True, False), Order(C, False, False)),
            limit=3,
            offset=1,
            ranking=Ranking.RANK,
            rank_name="r",
        ),
        (Output("a", A), Output("n", call("+", B, C))),
    )
    assert show(tree) == "\n".join(
        (
            "project a, n = b + c",
            "  top 3 after 1 rank by a order b desc, c nulls last rank r",
            "    union all",
            "      distinct",
            "        filter true",
            "          scan orders",
            "      negate",
            "        scan orders as o (change)",
        )
    )
    counted = AggregateCall("n", AggregateFunction.COUNT, None, False, BIGINT)
    summed = AggregateCall("s", AggregateFunction.SUM, A, True, BIGINT)
    windowed = Windows(orders, Column("at", TIMESTAMP), 90_000, 60_000, 500, "w.start", "w.end")
    grouped = Aggregate(windowed, (Output("k", A),), (counted, summed))
    assert show(Join(JoinKind.LEFT, grouped, Matching(orders, changed, ((A, B),), TRUE), call("=", A, B))) == "\n".join(
        (
            "join left on a = b",
            "  aggregate by k = a: n = count(*), s = sum(distinct a)",
            "    windows of 90 s every 1 min from 500 ms by at: w.start, w.end",
            "      scan orders",
            "  matching a <=> b",
            "    scan orders",
            "    scan orders as o (change)",
        )
    )
