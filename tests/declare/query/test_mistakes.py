"""What people get wrong: each mistake is named, placed and, where possible, corrected. `»` marks its place."""

import pytest

from headrace.declare.sql import read_query
from headrace.model.errors import InputError
from tests.declare.query.reading import SHOP, mistake, mistakes


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (
            "SELECT »totl FROM orders",
            'column "totl" does not exist',
            'did you mean "total"?',
        ),
        (
            "SELECT o.id\nFROM orders o\nWHERE »o.totl > 5",
            'column "o.totl" does not exist',
            'did you mean "o.total"?',
        ),
        ("SELECT »order.id FROM orders", 'table "order" is not in FROM', 'did you mean "orders"?'),
        ("SELECT id FROM »ordres", 'table "ordres" does not exist', 'did you mean "orders"?'),
        (
            "SELECT »name FROM customers a, customers b",
            'column "name" is ambiguous',
            "write a.name or b.name",
        ),
        ("SELECT »lenght(note) AS n FROM orders", 'function "lenght" does not exist', 'did you mean "length"?'),
        (
            "SELECT a.id FROM orders a, »customers a",
            '"a" occurs twice in FROM',
            "give one of them another name with AS",
        ),
        ("SELECT id FROM orders WHERE »note > 5", "cannot compare string with int", "it needs an explicit CAST"),
        ("SELECT id FROM orders WHERE »placed > 'soon'", "'soon' is not a value of type date", None),
        ("SELECT id FROM orders WHERE »quantity = 'five'", "'five' is not a value of type int", None),
        ("SELECT DATE »'1995-13-01' AS d FROM orders", "'1995-13-01' is not a value of type date", None),
        ("SELECT id FROM orders WHERE »quantity", "a condition must be boolean, not int", None),
        (
            "SELECT id FROM orders WHERE »sum(total) > 5",
            'aggregate "sum" is not allowed in WHERE',
            "conditions on groups go to HAVING",
        ),
        ("SELECT sum(»count(*)) AS s FROM orders", 'aggregate "count" is not allowed in an aggregate', None),
        (
            "SELECT customer, »note, count(*) AS n FROM orders GROUP BY customer",
            'column "orders.note" is neither grouped by nor aggregated',
            "add it to GROUP BY, or take min or max of it",
        ),
        (
            "SELECT customer FROM orders GROUP BY customer HAVING »total > 5",
            'column "orders.total" is neither grouped by nor aggregated',
            "add it to GROUP BY, or take min or max of it",
        ),
        (
            "SELECT customer, count(*) AS n FROM orders GROUP BY 1, »3",
            "GROUP BY 3: there is no such item in SELECT",
            None,
        ),
        ("SELECT count(*) AS n FROM orders GROUP BY »1", "GROUP BY cannot name an aggregate", None),
        ("SELECT id FROM orders ORDER BY »7 LIMIT 1", "ORDER BY 7: there is no such item in SELECT", None),
        ("SELECT »sum(note) AS s FROM orders", '"sum" needs numbers, not string', "it needs an explicit CAST"),
        ("SELECT »total + note AS s FROM orders", '"+" of decimal(10,2) and string needs an explicit CAST', None),
        ("SELECT »paid + 1 AS s FROM orders", '"+" is not defined for timestamp and int', None),
        ("SELECT CAST(»placed AS int) AS s FROM orders", "a value of type date cannot be cast to int", None),
        (
            "SELECT substring(»note) AS s FROM orders",
            'function "substring" does not take 1 argument',
            "it is substring(string, int[, int])",
        ),
        (
            "SELECT »upper(total) AS s FROM orders",
            'argument 1 of "upper": decimal(10,2) is not string',
            "it needs an explicit CAST",
        ),
        ("SELECT »date_trunc('fortnight', paid) AS s FROM orders", "'fortnight' is not a unit of time", None),
        ("SELECT »row_number() OVER (PARTITION BY id) AS s FROM orders", '"row_number" needs ORDER BY', None),
        ("SELECT »rank() AS s FROM orders", '"rank" needs OVER (...)', None),
        ("SELECT id FROM orders UNION ALL SELECT »id, note FROM orders", "the queries have 1 and 2 columns", None),
        (
            "SELECT id FROM orders UNION ALL SELECT »note FROM orders",
            "values of type bigint and string have no common type",
            "it needs an explicit CAST",
        ),
        ("SELECT x.a FROM orders AS x(»a, b)", '"x" has 8 columns, not 2', None),
        (
            "SELECT id FROM orders WHERE »id IN (SELECT id, note FROM orders)",
            "IN compares 1 values with 2 columns",
            None,
        ),
        (
            "SELECT (SELECT »max(id), max(note) FROM orders) AS m FROM orders",
            "a query used as a value has 2 columns, not one",
            None,
        ),
        (
            "SELECT id FROM orders o JOIN items i USING (»order_id)",
            'column "order_id" does not exist on one side of USING',
            None,
        ),
        (
            "WITH a AS (SELECT id FROM orders), »a AS (SELECT 1 AS x FROM orders) SELECT * FROM a",
            '"a" is defined twice in WITH',
            None,
        ),
        ("SELECT NULL AS »x FROM orders", 'the type of column "x" is not known', "CAST(NULL AS ...)"),
        ("SELECT id FROM »`a.b`", 'table "a.b" does not exist', None),
        ("SELECT id FROM »orders AS `a.b`", 'the name "a.b" contains "." or "/"', "give it another name with AS"),
        ("SELECT * EXCEPT (»nothing) FROM customers", 'column "nothing" does not exist', None),
        ("SELECT »x.* FROM customers", 'table "x" is not in FROM', None),
        (
            "SELECT count(*) AS n FROM clicks GROUP BY »window(at, '5 minutes', '10 minutes')",
            "the slide of a window must not exceed its size: rows between windows would be lost",
            None,
        ),
        (
            "SELECT count(*) AS n FROM clicks GROUP BY »window(at, '1 month')",
            '"1 month" has no fixed length: a month has 28 to 31 days',
            None,
        ),
        (
            "SELECT count(*) AS n FROM clicks GROUP BY »window(at, 'soon')",
            '"soon" is not an interval',
            "write it like '10 minutes' or '1 day 2 hours'",
        ),
        (
            "SELECT paid + INTERVAL »'1 day 02:30' AS x FROM orders",
            '"1 day 02:30" is not an interval',
            "write it like '10 minutes' or '1 day 2 hours'",
        ),
    ],
)
def test_a_mistake_is_named_placed_and_corrected(sql: str, message: str, hint: str | None):
    found = mistake(sql)
    assert found.message == message
    if hint is not None:
        assert found.hint == hint


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("»", "the text is empty"),
        ("»;", "the text is empty"),
        ("»INSERT INTO orders VALUES (1)", 'a query cannot begin with "INSERT"'),
        ("»DROP TABLE orders", 'a query cannot begin with "DROP"'),
        ("»selec id FROM orders", 'a query cannot begin with "selec"'),
        ("SELECT id FROM orders; »SELECT 2", "a second statement begins here"),
        ("SELECT id FROM orders »)", 'syntax error at ")"'),
        ("SELECT id\n  FROM orders\n  WHERE (id = 1 »GROUP BY id", 'syntax error at "GROUP BY": expecting )'),
        ("SELECT id FROM orders »WHERE", 'syntax error at "WHERE": something is missing here'),
        ("SELECT id», FROM orders", 'syntax error: nothing follows ","'),
        ("SELECT id FROM orders WHERE note = »'open", "a text that begins here is not closed by '"),
        ("SELECT id »FROM", 'syntax error at "FROM": something is missing here'),
    ],
)
def test_text_that_is_no_query_is_a_mistake_with_its_place(sql: str, message: str):
    assert mistake(sql).message == message


def test_all_mistakes_of_a_query_are_reported_at_once_in_the_order_of_the_text():
    found = mistakes(
        "SELECT ix, lenght(note) AS l\nFROM orders\nWHERE totl > 5 AND note = 3 AND EXISTS (SELECT x FROM items)"
    )
    assert [(str(problem.where), problem.message) for problem in found] == [
        ("query.sql:1:8", 'column "ix" does not exist'),
        ("query.sql:1:12", 'function "lenght" does not exist'),
        ("query.sql:3:7", 'column "totl" does not exist'),
        ("query.sql:3:20", "cannot compare string with int"),
        ("query.sql:3:48", 'column "x" does not exist'),
    ]


def test_an_unknown_table_does_not_make_its_columns_mistakes_too():
    (found,) = mistakes("SELECT o.id, total, c.name FROM ordres o JOIN customers c ON o.customer = c.id")
    assert found.message == 'table "ordres" does not exist'


def test_a_mistake_in_a_common_table_expression_is_reported_once_however_often_it_is_used():
    (found,) = mistakes("WITH a AS (SELECT idd FROM orders) SELECT x.idd AS i, y.idd AS j FROM a x, a y")
    assert found.message == 'column "idd" does not exist'


def test_a_common_table_expression_that_nobody_uses_is_read_as_well():
    (found,) = mistakes("WITH a AS (SELECT idd FROM orders) SELECT id FROM orders")
    assert found.message == 'column "idd" does not exist'


def test_deep_nesting_is_a_mistake_and_no_crash():
    for inner in ("(" * 400 + "1" + ")" * 400, "1" + " + 1" * 3000, "abs(" * 300 + "id" + ")" * 300):
        (found,) = mistakes(f"SELECT {inner} AS x FROM orders")
        assert found.message == "the query is nested too deeply"


def test_a_query_that_expands_to_thousands_of_tables_is_a_mistake():
    steps = ", ".join(f"a{n + 1} AS (SELECT x.id FROM a{n} x, a{n} y)" for n in range(12))
    found = mistakes(f"WITH a0 AS (SELECT id FROM orders), {steps} SELECT id FROM a12")
    assert found[0].message == "the query reads more than 1000 tables"


def test_long_chains_of_conditions_are_understood():
    chain = " OR ".join(f"(id = {n} AND quantity > {n})" for n in range(500))
    read_query(f"SELECT id FROM orders WHERE {chain}", SHOP)


def test_a_source_whose_columns_are_not_known_cannot_be_read():
    from dataclasses import replace

    blind = {**SHOP, "orders": replace(SHOP["orders"], columns=None)}
    with pytest.raises(InputError) as caught:
        read_query("SELECT id, o.total FROM orders o", blind)
    (problem,) = caught.value.problems
    assert problem.message == 'the columns of source "orders" are not known'
    assert problem.hint == "declare them with `columns:`, or read them from the database with --connect"
