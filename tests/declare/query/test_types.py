"""Types of expressions are Spark's in ANSI mode, and constants take the type of what they meet."""

import datetime as dt
import decimal

import pytest

from headrace.model.catalogue import PythonFunction
from headrace.model.errors import InputError, Location
from headrace.model.expr import Call, Column, Literal
from headrace.model.relation import Projection
from headrace.model.show import show_expr
from headrace.model.types import BIGINT, DATE, DOUBLE, INT, STRING, Decimal
from tests.declare.query.reading import relation, types, value


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("1", "int"),
        ("2147483648", "bigint"),
        ("-2147483648", "int"),
        ("12345678901234567890", "decimal(20,0)"),
        ("1.5", "decimal(2,1)"),
        ("0.05", "decimal(2,2)"),
        ("1e3", "double"),
        ("1L", "bigint"),
        ("1.5D", "double"),
        ("1.50BD", "decimal(3,2)"),
        ("quantity + 1", "int"),
        ("quantity + id", "bigint"),
        ("quantity / 2", "double"),
        ("quantity div 2", "bigint"),
        ("quantity % 2", "int"),
        ("total + 1", "decimal(11,2)"),
        ("total + quantity", "decimal(13,2)"),
        ("total * total", "decimal(21,4)"),
        ("total / total", "decimal(23,13)"),
        ("CAST(total AS decimal(38,10)) * total", "decimal(38,6)"),
        ("total % 3", "decimal(3,2)"),
        ("total * weight", "double"),
        ("-total", "decimal(10,2)"),
        ("CASE WHEN id = 1 THEN total ELSE 0 END", "decimal(12,2)"),
        ("coalesce(total, weight)", "double"),
        ("coalesce(quantity, id)", "bigint"),
        ("nullif(quantity, id)", "int"),
        ("placed + INTERVAL 1 DAY", "date"),
        ("placed + INTERVAL 1 HOUR", "timestamp"),
        ("placed + INTERVAL 1 MONTH", "date"),
        ("placed + 1", "date"),
        ("paid - INTERVAL 1 YEAR", "timestamp"),
        ("ceil(total)", "decimal(9,0)"),
        ("ceil(weight)", "bigint"),
        ("round(total, 1)", "decimal(10,1)"),
        ("sqrt(quantity)", "double"),
        ("length(note)", "int"),
        ("note || id", "string"),
        ("year(paid)", "int"),
        ("date_trunc('month', placed)", "timestamp"),
        ("sum(quantity)", "bigint"),
        ("sum(total)", "decimal(20,2)"),
        ("avg(total)", "decimal(14,6)"),
        ("avg(quantity)", "double"),
        ("count(*)", "bigint"),
        ("max(placed)", "date"),
    ],
)
def test_the_type_of_an_expression(expression: str, type_: str):
    assert types(f"SELECT {expression} AS x FROM orders") == {"x": type_}


@pytest.mark.parametrize(
    ("condition", "meant"),
    [
        ("total > 5", "orders.total > 5.00"),
        ("total > 0.055", "cast(orders.total as decimal(11,3)) > 0.055"),
        ("id = 5", "orders.id = 5"),
        ("weight < 0.5", "orders.weight < 0.5"),
        ("quantity = id", "cast(orders.quantity as bigint) = orders.id"),
        ("placed > '1995-01-01'", "orders.placed > date '1995-01-01'"),
        ("paid < '1995-01-01'", "orders.paid < timestamp '1995-01-01 00:00:00'"),
        ("paid = placed", "orders.paid = cast(orders.placed as timestamp)"),
        ("quantity = '5'", "orders.quantity = 5"),
        ("placed IN ('1995-01-01', NULL)", "orders.placed in (date '1995-01-01', null)"),
        ("placed < DATE '1995-01-31' + INTERVAL '1' MONTH", "orders.placed < date '1995-02-28'"),
        ("total BETWEEN 0.06 - 0.01 AND 0.06 + 0.01", "orders.total >= 0.05 and orders.total <= 0.07"),
        ("quantity <> -1", "orders.quantity <> -1"),
        ("NOT (id = 1 AND id = 2)", "not (orders.id = 1 and orders.id = 2)"),
        ("note NOT LIKE 'a%'", "not orders.note like 'a%'"),
        ("note ILIKE 'A%'", "lower(orders.note) like 'a%'"),
        ("note IS DISTINCT FROM 'x'", "not orders.note <=> 'x'"),
        ("(id > 1) IS NOT TRUE", "not (orders.id > 1) <=> true"),
        ("isnull(note) OR isnotnull(id)", "orders.note is null or orders.id is not null"),
        ("upper('ab') = note", "'AB' = orders.note"),
    ],
)
def test_constants_take_the_type_of_what_they_meet(condition: str, meant: str):
    tree = relation(f"SELECT id FROM orders WHERE {condition}")
    assert isinstance(tree, Projection)
    assert show_expr(tree.input.predicate) == meant  # type: ignore[union-attr]


def test_a_constant_is_computed_once():
    assert value("DATE '1998-12-01' - INTERVAL '90' DAY") == Literal(dt.date(1998, 9, 2), DATE)
    assert value("1.10 * 2") == Literal(decimal.Decimal("2.20"), Decimal(5, 2))


def test_a_constant_that_fails_is_left_to_fail_when_it_is_evaluated():
    assert value("1 / 0") == Call("/", (Literal(1.0, DOUBLE), Literal(0.0, DOUBLE)), DOUBLE)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("nvl(note, 'x')", "coalesce(orders.note, 'x')"),
        ("ifnull(note, 'x')", "coalesce(orders.note, 'x')"),
        ("nvl2(note, 1, 2)", "case when orders.note is not null then 1 else 2 end"),
        ("if(id = 1, 'a', 'b')", "case when orders.id = 1 then 'a' else 'b' end"),
        ("decode(quantity, 1, 'a', 'b')", "case when orders.quantity <=> 1 then 'a' else 'b' end"),
        ("CASE quantity WHEN 1 THEN 'a' END", "case when orders.quantity = 1 then 'a' end"),
        ("char_length(note)", "length(orders.note)"),
        ("substr(note, 2)", "substring(orders.note, 2)"),
        ("position('a' IN note)", "locate('a', orders.note)"),
        ("instr(note, 'a')", "locate('a', orders.note)"),
        ("extract(YEAR FROM placed)", "year(orders.placed)"),
        ("date_part('dow', placed)", "dayofweek(orders.placed)"),
        ("to_date(paid)", "cast(orders.paid as date)"),
        ("string(id)", "cast(orders.id as string)"),
        ("mod(id, 3)", "orders.id % 3"),
        ("log(weight)", "ln(orders.weight)"),
        ("lpad(note, 5)", "lpad(orders.note, 5, ' ')"),
        ("round(weight)", "round(orders.weight, 0)"),
        ("date_trunc('mon', paid)", "date_trunc('MONTH', orders.paid)"),
        ("note || '-' || note", "concat(orders.note, '-', orders.note)"),
        ("trim(TRAILING FROM note)", "rtrim(orders.note)"),
    ],
)
def test_other_spellings_of_a_function_become_one(written: str, meant: str):
    assert show_expr(value(written)) == meant


SCORE = PythonFunction("score", "shop:score", (DOUBLE, STRING), INT, 3, Location("headrace.yml"))


def test_a_declared_python_function_is_called_by_name_and_version():
    tree = relation("SELECT Score(quantity, note) AS s FROM orders", {"score": SCORE})
    assert isinstance(tree, Projection)
    assert tree.outputs[0].expr == Call(
        "python:score@3",
        (Call("cast", (Column("orders.quantity", INT),), DOUBLE), Column("orders.note", STRING)),
        INT,
    )


def test_arguments_of_a_python_function_are_checked():
    with pytest.raises(InputError, match='function "score" takes 2 arguments, not 1'):
        relation("SELECT score(quantity) AS s FROM orders", {"score": SCORE})
    with pytest.raises(InputError, match='argument 2 of "score": bigint is not string'):
        relation("SELECT score(quantity, id) AS s FROM orders", {"score": SCORE})


def test_a_column_has_the_type_of_its_declaration():
    assert value("customer") == Column("orders.customer", BIGINT)
