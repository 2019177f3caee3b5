"""Double quotes and backquotes hold names, single quotes hold text. `»` marks the place of a mistake."""

import pytest

from headrace.declare.query.environment import Books
from headrace.declare.query.text import Text, parse_query
from headrace.declare.query.written_out import write_out
from headrace.declare.sql import read_predicate
from headrace.model.errors import InputError, Location
from tests.declare.query.reading import SHOP, meaning, mistake, value


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT "id", \'x\' AS "note" FROM "orders" WHERE "orders"."note" = \'a\'',
        "SELECT `id`, 'x' AS `note` FROM `orders` WHERE `orders`.`note` = 'a'",
        'SELECT "ID" AS "id", r\'x\' AS "note" FROM orders WHERE "ORDERS".note = \'a\'',
    ],
)
def test_names_may_stand_in_double_quotes_or_backquotes(sql: str):
    assert meaning(sql) == meaning("SELECT id, 'x' AS note FROM orders WHERE note = 'a'").replace("= id", "= orders.id")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ('"My ""Id"""', 'My "Id"'),
        ("`back``quote`", "back`quote"),
        ('"order"', "order"),
        ('"Größe"', "Größe"),
        ('"注文 🛒"', "注文 🛒"),
        ('"a.b#1|@c:/$"', "a.b#1|@c:/$"),
        ('"it\'s"', "it's"),
    ],
)
def test_any_characters_may_be_in_a_quoted_name(written: str, name: str):
    assert meaning(f"SELECT id AS {written} FROM orders") == f"project {name} = orders.id\n  scan orders"


@pytest.mark.parametrize("text", ["'it''s'", r"'it\'s'", "'it' '\\'s'", r"'\u0069t''s'"])
def test_a_quote_within_text_is_written_twice_or_after_a_backslash(text: str):
    assert str(value(text)) == str(value("'it''s'"))
    assert meaning(f"SELECT id FROM orders WHERE note = {text}").splitlines()[1] == "  filter orders.note = 'it''s'"


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (
            'SELECT id FROM orders WHERE note = »"sent"',
            'column "sent" does not exist',
            "text is written in single quotes: 'sent'",
        ),
        ('SELECT id FROM orders WHERE note LIKE »"a%"', 'column "a%" does not exist', "'a%'"),
        ('SELECT id FROM orders WHERE note IN (»"it\'s")', 'column "it\'s" does not exist', "'it''s'"),
        ('SELECT coalesce(note, »"") AS n FROM orders', 'column "" does not exist', "''"),
        ('SELECT count(*) AS n FROM orders GROUP BY »"x"', 'column "x" does not exist', "'x'"),
        ('SELECT customer FROM orders GROUP BY customer HAVING »"x" = customer', 'column "x" does not exist', "'x'"),
        ('SELECT id FROM orders ORDER BY »"x" LIMIT 3', 'column "x" does not exist', "'x'"),
        ('SELECT id FROM orders WHERE placed > DATE »"2020-01-01"', 'syntax error at "2020-01-01"', "'2020-01-01'"),
        (
            'SELECT id FROM orders WHERE paid > now() - INTERVAL »"7 days"',
            "the length of an interval must be a constant",
            "'7 days'",
        ),
        ('SELECT »r"a\\d" AS x FROM orders', 'r"a\\d" is not text', "r'a\\d'"),
    ],
)
def test_a_quoted_name_that_is_no_column_may_have_been_meant_as_text(sql: str, message: str, hint: str):
    problem = mistake(sql)
    assert problem.message == message
    assert problem.hint
    assert problem.hint.endswith(hint)
    assert "text is written in single quotes: " in problem.hint


def test_a_misspelt_quoted_name_is_corrected_as_well():
    problem = mistake('SELECT »"totl" AS x FROM orders')
    assert problem.hint == "did you mean \"total\"?; text is written in single quotes: 'totl'"


def test_a_dot_within_quotes_is_part_of_the_name():
    problem = mistake('SELECT »"orders.id" AS x FROM orders')
    assert problem.hint == 'write "orders"."id": a dot within quotes is part of the name'


def test_a_name_that_is_not_closed_is_called_a_name():
    assert mistake('SELECT id AS »"x FROM orders').message == 'a name that begins here is not closed by "'


def test_conditions_of_the_project_file_read_quotes_alike():
    where = Location("headrace.yml", 3, 5)
    plain = read_predicate("note = 'a'", where, SHOP["orders"])
    assert read_predicate("\"note\" = 'a'", where, SHOP["orders"]) == plain
    with pytest.raises(InputError, match="text is written in single quotes: 'a'"):
        read_predicate('note = "a"', where, SHOP["orders"])


def test_what_spark_is_handed_has_names_in_backquotes():
    """So that no setting of a Spark makes text of a name."""
    text = Text(
        'SELECT "id" AS "a ""b"" `c`", \'"x"\' AS t -- "no name"\nFROM "Orders" WHERE "note" = \'a\'', Location("q.sql")
    )
    sql, reads = write_out(text, parse_query(text), lambda name: SHOP[name.lower()].name, Books())
    assert reads == {"orders"}
    assert sql == (
        'SELECT `id` AS `a "b" ``c```, \'"x"\' AS t -- "no name"\nFROM `source:orders` AS `Orders` WHERE `note` = \'a\''
    )
