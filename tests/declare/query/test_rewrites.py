"""A refusal that tells what SQL to write instead is right: what it tells is accepted."""

from __future__ import annotations

import re

import pytest

from headrace.declare.query.report import REFUSALS
from headrace.declare.sql import read_query
from headrace.model.dialect import SqlDialect
from headrace.model.errors import UnsupportedSql
from tests.declare.query.reading import SHOP, relation
from tests.declare.query.test_refusals import REFUSED

SQL = re.compile(r"[A-Z]{3,}|\b\w+\(")
NOT_SQL = ("UTC", "MMM")

WRITTEN_INSTEAD = {
    "asof join": "SELECT o.id, c.page FROM orders o JOIN clicks c ON c.customer = o.customer AND c.at <= o.paid "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY o.id ORDER BY c.at DESC) = 1",
    "clause: DISTINCT ON": "SELECT id FROM (SELECT id, "
    "ROW_NUMBER() OVER (PARTITION BY customer ORDER BY paid) AS place FROM orders) WHERE place = 1",
    "clause: FETCH": "SELECT id FROM orders ORDER BY id LIMIT 2",
    "clause: FETCH ... PERCENT": "SELECT id FROM orders ORDER BY id LIMIT 2",
    "clause: FETCH ... WITH TIES": "SELECT id FROM (SELECT id, RANK() OVER (ORDER BY total) AS place FROM orders) "
    "WHERE place <= 2",
    "clause: LIMIT ... PERCENT": "SELECT id FROM orders ORDER BY id LIMIT 2",
    "expression: ->": "SELECT get_json_object(note, '$.a.b') AS x FROM orders",
    "expression: ->>": "SELECT get_json_object(note, '$.a.b') AS x FROM orders",
    "expression: AT TIME ZONE": "SELECT from_utc_timestamp(paid, 'Europe/Paris') AS x FROM orders",
    "unpivot": "SELECT * FROM (SELECT id, total, customer FROM orders) UNPIVOT ((v, w) FOR c IN ((total, customer), "
    "(customer, total)))",
    "expression: SIMILAR TO": "SELECT id FROM orders WHERE note RLIKE '^(a|b)$'",
    "expression: date - date": "SELECT datediff(placed, DATE '2024-01-01') AS x FROM orders",
    "expression: ~*": "SELECT id FROM orders WHERE note RLIKE '(?i)a'",
    "function: map": "SELECT element_at(array(1, 2), CAST(array_position(array('a', 'b'), 'a') AS int)) AS x "
    "FROM orders",
    "function: extract(second)": "SELECT second(paid) AS x FROM orders",
    "grouping sets": "SELECT id, customer, count(*) AS n FROM orders GROUP BY GROUPING SETS ((id), (customer), ())",
    "interval column": "SELECT unix_timestamp(paid) - unix_timestamp(paid) AS x, datediff(paid, placed) AS y "
    "FROM orders",
    "lateral join": "SELECT o.id, l.x FROM orders o LEFT JOIN LATERAL (SELECT max(price) AS x FROM items i "
    "WHERE i.order_id = o.id) l ON TRUE",
    "join as of the event": "SELECT k.customer, c.id FROM calls k LEFT JOIN customers c ON c.id = k.customer",
    "now() as a value": "SELECT id, date_trunc('minute', now()) AS m, current_date AS d, "
    "paid > now() - INTERVAL '7 days' AS recent FROM orders",
    "pivot": "SELECT * FROM (SELECT id, customer, total FROM orders) PIVOT (sum(total) AS total, count(*) AS n "
    "FOR (id, customer) IN ((1, 2) AS both))",
    "processing time": "SELECT window.start AS s, count(*) AS n FROM clicks GROUP BY window(at, '10 seconds')",
    "scalar subquery without aggregate": "SELECT id, (SELECT CAST(NULL AS int) AS x FROM items) AS x FROM orders",
    "session window in grouping sets": "SELECT page, count(*) AS n FROM clicks "
    "GROUP BY page, session_window(at, '1 hour') UNION ALL "
    "SELECT NULL, count(*) FROM clicks GROUP BY session_window(at, '1 hour')",
    "session window outside group by": "SELECT window_start FROM SESSION(TABLE clicks PARTITION BY customer, "
    "DESCRIPTOR(at), INTERVAL '10' MINUTES) UNION ALL SELECT session_window.start FROM clicks "
    "GROUP BY customer, session_window(at, '10 minutes')",
    "session window with a gap that changes": "SELECT session_window.start AS s FROM clicks "
    "GROUP BY session_window(at, '10 minutes')",
    "several table functions": "SELECT y FROM orders LATERAL VIEW explode(array(1)) a AS x "
    "LATERAL VIEW explode(array(2)) b AS y",
    "stream-stream join without a window": "SELECT c.page FROM clicks c JOIN views v ON c.customer = v.customer "
    "AND c.at BETWEEN v.at - INTERVAL 1 HOUR AND v.at",
    "subquery as a value": "SELECT id FROM orders o WHERE id = 1 OR NOT EXISTS (SELECT 1 FROM items i "
    "WHERE i.order_id = o.id AND i.line = o.customer)",
    "subquery in ON": "SELECT o.id FROM orders o LEFT JOIN items i ON o.id = i.order_id "
    "WHERE o.total > (SELECT avg(total) FROM orders)",
    "table function": "SELECT n FROM orders LATERAL VIEW explode(array(1, 2)) e AS n",
    "table function of groups": "SELECT explode(ids) AS x FROM (SELECT array_agg(id) AS ids FROM orders "
    "GROUP BY customer)",
    "table sample": "SELECT id FROM orders WHERE pmod(id, 10) = 0",
    "window frame": "SELECT sum(total) OVER (ORDER BY id ROWS 1 PRECEDING) AS a, "
    "sum(total) OVER (ORDER BY id RANGE 1 PRECEDING) AS b FROM orders",
    "window function: mode in descending order": "SELECT o.id, d.m FROM orders o JOIN (SELECT customer, "
    "mode() WITHIN GROUP (ORDER BY total DESC) AS m FROM orders GROUP BY customer) d ON d.customer = o.customer",
    "window function: sum of distinct values": "SELECT o.id, d.n FROM orders o JOIN (SELECT customer, "
    "sum(DISTINCT total) AS n FROM orders GROUP BY customer) d ON d.customer = o.customer",
    "window function": "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY paid) AS a FROM orders) WHERE a <= 3 "
    "UNION ALL SELECT id FROM (SELECT id, RANK() OVER (ORDER BY paid) AS a FROM orders) WHERE a <= 3 "
    "UNION ALL SELECT id FROM (SELECT id, DENSE_RANK() OVER (ORDER BY paid) AS a FROM orders) WHERE a <= 3",
    "window outside group by": "SELECT window_start FROM TUMBLE(clicks, at, INTERVAL '1 minute') "
    "UNION ALL SELECT window.start FROM clicks GROUP BY window(at, '1 minute')",
}


POSTGRES = [
    ("to_char(paid - placed, 'DD')", "extract(day FROM x)", "extract(day FROM paid - placed)"),
    ("to_char(age(paid, placed), 'DD')", "x::text", "age(paid, placed)::text"),
    ("greatest(paid - placed, '1 day')", "CASE WHEN a > b", "CASE WHEN paid - placed > '1 day' THEN paid - placed END"),
    ("paid::time(0)", "x::time", "paid::time"),
    ("(total / 3)::text", "round(x, 2)::text", "round(total / 3, 2)::text"),
    ("json_build_object('n', note)", "x::text, or x::jsonb", "json_build_object('n', note::text)"),
    ("note::jsonb < '1'::jsonb", "(x ->> 'a')::numeric < 10", "(note::jsonb ->> 'a')::numeric < 10"),
    ("regexp_matches(note, 'a')", "(regexp_match(x, 'pattern'))[1]", "(regexp_match(note, 'a'))[1]"),
    ("paid::text", "x::timestamp::text", "paid::timestamp::text"),
    ("to_char(weight, '9.9')", "to_char(x::numeric, '990.99')", "to_char(weight::numeric, '990.99')"),
    ("trunc(weight, 2)", "trunc(x::numeric, n)", "trunc(weight::numeric, 2)"),
]


@pytest.mark.parametrize(("refused", "hint", "instead"), POSTGRES)
def test_what_a_hint_tells_to_write_for_postgres_is_accepted(refused: str, hint: str, instead: str):
    with pytest.raises(UnsupportedSql) as caught:
        read_query(f"SELECT {refused} AS x FROM orders", SHOP, dialect=SqlDialect.POSTGRES)
    assert hint in str(caught.value)
    read_query(f"SELECT {instead} AS x FROM orders", SHOP, dialect=SqlDialect.POSTGRES)


def words_of_sql(hint: str) -> set[str]:
    """Keywords and functions that a hint tells to use."""
    found = {word.rstrip("(") for word in SQL.findall(hint)}
    return found - set(NOT_SQL)


def find_rewrite(operator: str) -> str | None:
    return WRITTEN_INSTEAD.get(operator) or WRITTEN_INSTEAD.get(operator.partition(": ")[0])


@pytest.mark.parametrize("operator", WRITTEN_INSTEAD)
def test_what_a_hint_tells_to_write_is_accepted(operator: str):
    relation(WRITTEN_INSTEAD[operator])


@pytest.mark.parametrize(("operator", "sql"), REFUSED)
def test_every_hint_with_sql_in_it_has_been_followed(operator: str, sql: str):
    with pytest.raises(UnsupportedSql) as caught:
        relation(sql.replace("»", ""))
    for hint in (problem.hint or "" for problem in caught.value.problems):
        words, rewrite = words_of_sql(hint), find_rewrite(operator)
        assert not words or (rewrite is not None and any(word in rewrite for word in words)), hint


def test_every_hint_of_the_list_with_sql_in_it_has_been_followed():
    for operator, hint in REFUSALS.items():
        words, rewrite = words_of_sql(hint), find_rewrite(operator)
        assert not words or (rewrite is not None and all(word in rewrite for word in words)), operator
