"""What is valid SQL but not maintained: refused by name, where it stands. `»` marks the place."""

import pytest

from headrace.declare.query.report import REFUSALS
from headrace.declare.sql import read_query
from headrace.model.errors import InputError, UnsupportedSql
from tests.declare.query.reading import SHOP, meaning, refusal

FULL_JOINS = [f"FULL JOIN customers c{number} ON c.id = c{number}.id" for number in range(80)]

REFUSED = [
    ("aggregate: stddev", "SELECT »stddev(total) AS s FROM orders"),
    ("aggregate: collect_list", "SELECT customer, »collect_list(note) AS s FROM orders GROUP BY customer"),
    ("aggregate: bool_and", "SELECT »bool_and(vip) AS s FROM customers"),
    ("array element", "SELECT »note[0] AS s FROM orders"),
    ("clause: windows", "SELECT id FROM orders WINDOW »w AS (ORDER BY id)"),
    ("clause: sort", "SELECT id FROM orders SORT BY »id"),
    ("clause: asof join", "SELECT o.id FROM orders o ASOF JOIN »items i ON o.id = i.order_id"),
    (
        "correlated subquery",
        "SELECT id FROM orders o WHERE 1 = (SELECT count(*) FROM items i WHERE i.price > »o.total)",
    ),
    (
        "correlated subquery",
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM items i WHERE i.order_id = o.id "
        "AND EXISTS (SELECT 1 FROM customers c WHERE c.id = »o.customer))",
    ),
    (
        "correlated subquery",
        "SELECT id FROM orders o WHERE id IN "
        "(SELECT order_id FROM items i WHERE i.price < »o.total ORDER BY price LIMIT 1)",
    ),
    (
        "correlated subquery",
        "SELECT id FROM orders o WHERE EXISTS (SELECT max(price) FROM items i WHERE i.order_id = »o.id)",
    ),
    (
        "correlated subquery",
        "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM items i LEFT JOIN customers c ON c.id = »o.customer)",
    ),
    ("count distinct of several columns", "SELECT »count(DISTINCT customer, note) AS n FROM orders"),
    ("cube", "SELECT customer, count(*) AS n FROM orders GROUP BY CUBE (»customer)"),
    ("deep nesting", f"»SELECT c.id FROM customers c {' '.join(FULL_JOINS)}"),
    ("except all", "SELECT id FROM orders EXCEPT ALL SELECT »order_id FROM items"),
    ("expression: ANY or ALL", "SELECT id FROM orders WHERE »id = ANY (SELECT order_id FROM items)"),
    ("expression: LIKE ANY or ALL", "SELECT id FROM orders WHERE »note LIKE ANY ('a', 'b')"),
    ("expression: &", "SELECT »id & 1 AS x FROM orders"),
    ("expression: ->", "SELECT »note -> 'a' AS x FROM orders"),
    ("expression: ->>", "SELECT »note ->> 'a' AS x FROM orders"),
    ("expression: SIMILAR TO", "SELECT id FROM orders WHERE »note SIMILAR TO 'a|b'"),
    ("expression: ~*", "SELECT id FROM orders WHERE »note ~* 'a'"),
    ("expression: AT TIME ZONE", "SELECT »placed AT TIME ZONE 'CET' AS x FROM orders"),
    ("expression: BETWEEN SYMMETRIC", "SELECT id FROM orders WHERE »id BETWEEN SYMMETRIC 3 AND 1"),
    ("expression: parameter", "SELECT id FROM orders WHERE »id = ?"),
    ("clause: FOR UPDATE", "SELECT »id FROM orders FOR UPDATE"),
    ("clause: FETCH", "SELECT id FROM orders ORDER BY id FETCH FIRST »2 ROWS ONLY"),
    ("clause: FETCH ... WITH TIES", "SELECT id FROM orders ORDER BY id FETCH FIRST »2 ROWS WITH TIES"),
    ("clause: FETCH ... PERCENT", "SELECT id FROM orders ORDER BY id FETCH FIRST »2 PERCENT ROWS ONLY"),
    ("clause: LIMIT ... PERCENT", "SELECT id FROM orders ORDER BY id LIMIT »2 PERCENT"),
    ("clause: DISTINCT ON", "SELECT DISTINCT ON (»note) note, id FROM orders ORDER BY note, id"),
    ("expression: cast to map", "SELECT CAST(»note AS map<string, int>) AS x FROM orders"),
    ("expression: date - date", "SELECT »placed - placed AS x FROM orders"),
    (
        "expression: interval arithmetic",
        "SELECT id FROM orders WHERE (»paid - paid) + INTERVAL 1 DAY > INTERVAL 2 DAYS",
    ),
    ("function: array", "SELECT »array(1, 2) AS x FROM orders"),
    ("function: date_format", "SELECT »date_format(paid, 'EEEE') AS x FROM orders"),
    ("function: extract(second)", "SELECT extract(SECOND FROM »paid) AS x FROM orders"),
    ("function: try_cast", "SELECT TRY_CAST(»note AS int) AS x FROM orders"),
    ("function: rlike", "SELECT id FROM orders WHERE »note RLIKE note"),
    ("grouping sets", "SELECT customer, count(*) AS n FROM orders GROUP BY GROUPING SETS ((»customer), ())"),
    ("intersect all", "SELECT id FROM orders INTERSECT ALL SELECT »order_id FROM items"),
    ("interval column", "SELECT »paid - paid AS x FROM orders"),
    ("lateral join", "SELECT o.id FROM orders o, LATERAL (SELECT »1 AS x FROM items) l"),
    ("lateral view", "SELECT id FROM orders LATERAL VIEW explode(»note) e AS f".replace("explode(»", "»explode(")),
    ("limit without order by", "SELECT id FROM orders LIMIT »3"),
    ("limit without order by", "SELECT id FROM (SELECT id FROM orders LIMIT »3) ORDER BY id LIMIT 1"),
    ("limit without order by", "SELECT id FROM orders ORDER BY 'x' LIMIT »3"),
    ("natural join", "SELECT name FROM orders NATURAL JOIN »customers"),
    ("nondeterministic function: rand", "SELECT id FROM orders WHERE »rand() < 0.1"),
    ("nondeterministic function: uuid", "SELECT »uuid() AS x FROM orders"),
    ("now() outside a filter on time", "SELECT »now() AS x FROM orders"),
    ("now() outside a filter on time", "SELECT id FROM orders WHERE year(»current_timestamp()) = year(placed)"),
    ("now() outside a filter on time", "SELECT id FROM orders WHERE paid > »now() OR id = 1"),
    ("now() outside a filter on time", "SELECT count(*) AS n FROM orders GROUP BY window(»now(), '1 minute')"),
    (
        "now() outside a filter on time",
        "SELECT o.id FROM orders o LEFT JOIN items i ON o.id = i.order_id AND o.paid > »now()",
    ),
    ("offset without limit", "SELECT id FROM orders ORDER BY id OFFSET »5"),
    ("pivot", "SELECT * FROM orders PIVOT (»sum(total) FOR customer IN (1, 2))"),
    ("recursive query", "WITH RECURSIVE »a AS (SELECT id FROM orders) SELECT id FROM a"),
    ("rollup", "SELECT customer, count(*) AS n FROM orders GROUP BY ROLLUP (»customer)"),
    ("rollup", "SELECT customer, count(*) AS n FROM orders GROUP BY »customer WITH ROLLUP"),
    ("scalar subquery without aggregate", "SELECT id FROM orders WHERE total > (SELECT »price FROM items)"),
    (
        "scalar subquery without aggregate",
        "SELECT id FROM orders o WHERE total > (SELECT »price FROM items i WHERE i.order_id = o.id)",
    ),
    (
        "scalar subquery without aggregate",
        "SELECT id FROM orders WHERE 1 < (SELECT »count(*) FROM items GROUP BY line)",
    ),
    ("select without from", "SELECT »1 AS x"),
    ("session window", "SELECT count(*) AS n FROM clicks GROUP BY »session_window(at, '5 minutes')"),
    (
        "several time windows",
        "SELECT count(*) AS n FROM clicks GROUP BY window(at, '5 minutes'), »window(at, '1 hour')",
    ),
    (
        "several window functions",
        "SELECT * FROM (SELECT row_number() OVER (ORDER BY id) AS a, »rank() OVER (ORDER BY note) AS b FROM orders) "
        "WHERE a <= 1",
    ),
    (
        "stream-stream join without a window",
        "SELECT c.page FROM clicks c JOIN »views v ON c.customer = v.customer",
    ),
    (
        "stream-stream join without a window",
        "SELECT c.page FROM clicks c, »views v WHERE c.customer = v.customer AND c.at > v.at",
    ),
    (
        "stream-stream join without a window",
        "SELECT c.page FROM clicks c WHERE EXISTS (SELECT 1 FROM »views v WHERE v.customer = c.customer)",
    ),
    ("struct column", "SELECT »window, count(*) AS n FROM clicks GROUP BY window(at, '5 minutes')"),
    ("subquery as a value", "SELECT id, EXISTS (SELECT »1 FROM items) AS x FROM orders"),
    ("subquery in ON", "SELECT o.id FROM orders o JOIN items i ON EXISTS (SELECT »1 FROM customers)"),
    ("subquery in ON", "SELECT o.id FROM orders o JOIN items i ON o.total > (SELECT »max(total) FROM orders)"),
    ("subquery under OR", "SELECT id FROM orders WHERE id = 1 OR »id IN (SELECT order_id FROM items)"),
    ("subquery under OR", "SELECT id FROM orders WHERE id = 1 OR EXISTS (SELECT »1 FROM items)"),
    ("table function: explode", "SELECT »explode(note) AS x FROM orders"),
    ("table function: range", "SELECT id FROM »range(10)"),
    ("table function: rows from", "SELECT c FROM ROWS FROM (»generate_series(1, 3)) AS t(c)"),
    ("table sample", "SELECT id FROM orders TABLESAMPLE (»10 PERCENT)"),
    ("time travel", "SELECT id FROM orders VERSION AS OF »1"),
    ("values", "SELECT * FROM (VALUES (»1, 2)) AS t(a, b)"),
    ("values", "VALUES (»1, 2)"),
    ("window function: lag", "SELECT »lag(total) OVER (ORDER BY id) AS x FROM orders"),
    ("window function: sum", "SELECT »sum(total) OVER (PARTITION BY customer) AS x FROM orders"),
    ("window function: row_number", "SELECT id, »row_number() OVER (ORDER BY id) AS n FROM orders"),
    (
        "window function: row_number",
        "SELECT id FROM (SELECT id, »row_number() OVER (ORDER BY id) AS n FROM orders) WHERE n > 3",
    ),
    (
        "window function: rank",
        "SELECT c.id, q.n FROM customers c LEFT JOIN (SELECT customer, »rank() OVER (ORDER BY id) AS n FROM orders) q "
        "ON c.id = q.customer WHERE q.n <= 3",
    ),
    ("window outside group by", "SELECT »window(at, '5 minutes').start AS s FROM clicks"),
]


@pytest.mark.parametrize(("operator", "sql"), REFUSED)
def test_what_is_not_maintained_is_refused_by_name_and_place(operator: str, sql: str):
    assert refusal(sql) == operator


def test_every_refusal_of_the_list_has_an_example():
    shown = {f"{name.partition(': ')[0]}: NAME" if ": " in name else name for name, _ in REFUSED}
    assert shown == set(REFUSALS)


def test_all_that_is_refused_in_a_query_is_told_at_once():
    sql = (
        "WITH w AS (SELECT id, rand() AS r FROM orders)\n"
        "SELECT customer, collect_list(note) AS notes, (SELECT max(note[0]) FROM orders) AS n\n"
        "FROM orders o NATURAL JOIN customers TABLESAMPLE (10 PERCENT) JOIN w USING (id)\n"
        "WHERE note RLIKE note AND misspelt = 1\n"
        "GROUP BY CUBE (customer) SORT BY customer"
    )
    with pytest.raises(UnsupportedSql) as caught:
        read_query(sql, SHOP)
    assert [
        (problem.where.line, problem.message.split('"')[1]) for problem in caught.value.problems if problem.where
    ] == [
        (1, "nondeterministic function: rand"),
        (2, "aggregate: collect_list"),
        (2, "array element"),
        (3, "natural join"),
        (3, "table sample"),
        (4, "function: rlike"),
        (5, "cube"),
        (5, "clause: sort"),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT c.page FROM clicks c JOIN views v ON c.customer = v.customer "
        "AND v.at BETWEEN c.at - INTERVAL 1 HOUR AND c.at",
        "SELECT c.page FROM clicks c, views v WHERE c.at = v.at",
        "SELECT c.page FROM clicks c, views v WHERE c.at - v.at < INTERVAL 1 HOUR AND v.at - c.at < INTERVAL 1 HOUR",
        "SELECT c.page FROM clicks c LEFT JOIN views v ON date_trunc('hour', c.at) = date_trunc('hour', v.at)",
        "SELECT c.page FROM clicks c JOIN orders o ON c.customer = o.customer",
        "SELECT c.page FROM clicks c JOIN (SELECT customer, count(*) AS n FROM views GROUP BY customer) v "
        "ON c.customer = v.customer",
        "SELECT a.n FROM (SELECT window.start AS s, count(*) AS n FROM clicks GROUP BY window(at, '1 hour')) a "
        "JOIN (SELECT window.start AS s FROM views GROUP BY window(at, '1 hour')) b ON a.s = b.s",
    ],
)
def test_streams_join_within_bounds_of_time_and_with_tables(sql: str):
    assert meaning(sql)


def test_mistakes_are_told_before_a_refusal_that_follows_them():
    from tests.declare.query.reading import mistakes

    found = mistakes("SELECT id FROM orders WHERE totl > 5 AND id = 1 OR EXISTS (SELECT 1 FROM items)")
    assert [problem.message for problem in found] == ['column "totl" does not exist']


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (f"SELECT uid FROM users WHERE uid IN ({', '.join(map(str, range(100_000)))})", "200,008 words and signs"),
        (f"SELECT uid FROM users WHERE {' AND '.join(f'uid <> {n}' for n in range(2_002))}", "2,001 AND and OR"),
    ],
    ids=["values", "conditions"],
)
def test_a_query_that_would_take_minutes_is_refused_with_the_limit(query: str, what: str):
    with pytest.raises(InputError) as raised:
        read_query(query, {})
    (problem,) = raised.value.problems
    assert problem.message.startswith(f"the query has {what}, and at most ") and problem.hint
