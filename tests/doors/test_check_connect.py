"""`headrace check --connect` against a real database."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from headrace.doors.cli import main
from headrace.doors.cli.output import Exit
from tests.declare.projects import write_project

PROJECT = """
    project: shop
    sites: {us: {}}
    sources:
      orders: {kind: table, at: us, rate: 5 /s, postgres: {dsn: "${SHOP_DSN}", table: orders}}
    contracts:
      totals: {view: totals, at: us, freshness: 30 s}
    feeds:
      home:
        events: {source: orders, producer: COLUMN, time: placed, id: id}
        follows: {source: orders, consumer: id, producer: id}
"""
VIEW = "SELECT customer, sum(total) AS total FROM orders GROUP BY customer"


@pytest.fixture
def project(tmp_path: Path, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, customer int, total int, placed timestamptz)")
        connection.execute("INSERT INTO orders SELECT n, n % 7, n FROM generate_series(1, 70) AS n")
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("ANALYZE orders")
    monkeypatch.setenv("SHOP_DSN", postgres_dsn)
    return write_project(tmp_path, PROJECT.replace("COLUMN", "customer"), totals=VIEW)


def test_without_connecting_a_view_over_unknown_columns_is_passed_over(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["check", str(project)]) == Exit.DONE
    out = capsys.readouterr().out
    assert 'warning: the columns of source "orders" are not known' in out
    assert "columns not known" in out


def test_connecting_fills_in_columns_and_sizes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", "--connect", "--json", str(project)]) == Exit.DONE
    document = json.loads(capsys.readouterr().out)
    (source,), (view,) = document["sources"], document["views"]
    assert (source["rows"], source["rate"], source["key"]) == (70, 5, ["id"])
    assert {column["name"]: column["distinct"] for column in source["columns"]} == {
        "id": 70,
        "customer": 7,
        "total": 70,
        "placed": None,
    }
    assert view["columns"] == [{"name": "customer", "type": "int"}, {"name": "total", "type": "bigint"}]
    assert document["warnings"] == []


def test_columns_are_checked_after_connecting(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_project(project, PROJECT.replace("COLUMN", "custmer"), totals=VIEW.replace("total)", "totl)"))
    assert main.run(["check", "--connect", str(project)]) == Exit.NO
    out = capsys.readouterr().out
    assert 'feed "home" names column "custmer", which source "orders" does not have' in out
    assert 'column "totl" does not exist' in out


def test_a_finding_of_the_database_is_a_mistake(
    project: Path, postgres_dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("ALTER TABLE orders DROP CONSTRAINT orders_pkey")
    assert main.run(["check", "--connect", str(project)]) == Exit.NO
    out = capsys.readouterr().out
    assert "public.orders has no primary key" in out
    assert "hint: ALTER TABLE public.orders ADD PRIMARY KEY" in out
    assert out.endswith("1 mistake\n")


def test_a_variable_that_is_not_set_is_one_mistake(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_DSN")
    assert main.run(["check", "--connect", str(project)]) == Exit.NO
    out = capsys.readouterr().out
    assert out.count('variable "SHOP_DSN" is not set') == 1
    assert 'error: variable "SHOP_DSN" is not set' in out


def test_columns_that_sql_cannot_tell_apart_are_named_both(
    tmp_path: Path, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOP_DSN", postgres_dsn)
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute('CREATE TABLE "Items" (id bigint PRIMARY KEY, "Größe" int, "größe" int, "a.b" int)')
    table = """{dsn: "${SHOP_DSN}", table: '"Items"'}"""
    text = f"project: shop\nsites: {{us: {{}}}}\nsources: {{items: {{kind: table, at: us, postgres: {table}}}}}\n"
    (tmp_path / "headrace.yml").write_text(text, encoding="utf-8")
    assert main.run(["check", str(tmp_path), "--connect"]) == Exit.NO
    said = capsys.readouterr().out
    assert 'columns of source "items": "Größe" and "größe" differ in upper and lower case only' in said
    assert 'columns of source "items": "a.b" is not a usable name' in said
