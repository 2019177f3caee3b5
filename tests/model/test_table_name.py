"""Names of tables are read as PostgreSQL reads them, and written so that they read back."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.table_name import NotATable, TableName, quote_name, read_table_name, show_table


@pytest.mark.parametrize(
    ("text", "schema", "name"),
    [
        ("orders", None, "orders"),
        ("public.orders", "public", "orders"),
        ("Public.ORDERS", "public", "orders"),
        ('"Order Items"', None, "Order Items"),
        ('public."Order Items"', "public", "Order Items"),
        ('"Größe"."naïve café"', "Größe", "naïve café"),
        ("GRÖSSE", None, "grÖsse"),
        ("注文", None, "注文"),
        ('"a.b"."c""d"', "a.b", 'c"d'),
        (' public . "x" ', "public", "x"),
        ("select", None, "select"),
        ("my-table", None, "my-table"),
    ],
)
def test_a_name_is_read_as_postgresql_reads_it(text: str, schema: str | None, name: str):
    assert read_table_name(text) == TableName(schema, name)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("Order Items", '"Order Items" is not the name of a table', "write '\"Order Items\"'"),
        ("public.Order Items", '"public.Order Items" is not the name', "write 'public.\"Order Items\"'"),
        ("", '"" is not the name of a table', "write schema.table"),
        ("a.", '"a." is not the name of a table', "write schema.table"),
        (".a", '".a" is not the name of a table', "write schema.table"),
        ("a..b", '"a..b" is not the name of a table', "write schema.table"),
        ('"a', '"a is not the name of a table', "write schema.table"),
        ('a"b"', 'a"b" is not the name of a table', "write schema.table"),
        ('a.""', 'a."" is not the name of a table', "between the quotes"),
        ("a.b.c", '"a.b.c" is not the name of a table', "it has 3 parts: write schema.table"),
        ('"' + "é" * 32 + '"', "has 64 bytes", "at most 63"),
    ],
)
def test_a_text_that_names_no_table_is_refused_with_what_to_write(text: str, message: str, hint: str):
    with pytest.raises(NotATable) as refused:
        read_table_name(text)
    assert message in refused.value.message
    assert hint in refused.value.hint


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


@given(st.one_of(st.none(), NAMES), NAMES)
def test_a_written_name_reads_back(schema: str | None, name: str):
    assert read_table_name(str(TableName(schema, name))) == TableName(schema, name)


@pytest.mark.parametrize(
    ("name", "written"), [("orders", "orders"), ("user", '"user"'), ("Orders", '"Orders"'), ("größe", '"größe"')]
)
def test_only_names_that_need_quotes_have_them(name: str, written: str):
    assert quote_name(name) == written


def test_messages_do_not_put_quotes_around_quotes():
    assert show_table("public.orders") == '"public.orders"'
    assert show_table('public."Order Items"') == 'public."Order Items"'


def test_postgresql_itself_reads_the_same(postgres_dsn: str):
    texts = ["Orders", '"Order Items"', 'Public."select"', '"GRÖSSE"', "GRÖSSE", '"a.b""c"', "my-table", "注文"]
    with psycopg.connect(postgres_dsn) as session:
        for text in texts:
            table = read_table_name(text)
            session.execute(f"CREATE TABLE {table} (x int)".encode())
            found = session.execute("SELECT relname FROM pg_class WHERE oid = to_regclass(%s)", [text]).fetchone()
            assert found == (table.name,)
            session.execute(f"DROP TABLE {table}".encode())
