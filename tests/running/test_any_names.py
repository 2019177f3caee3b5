"""Names in quotes, with capitals, spaces, words of SQL and letters of any script, from a table to its copy."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable

import headrace
from headrace.doors.cli import main
from tests.running.running_project import RunningProject, recomputed, until
from tests.running.test_running_project import get

TABLES = """
CREATE SCHEMA "Lager 1";
CREATE TABLE "Lager 1"."Order Items" ("select" bigint PRIMARY KEY, "größe" text, "Total Price" numeric(12,2),
    "naïve café" timestamptz, "it's ""so"" 100%" text, "Group" bigint);
CREATE TABLE "注文" ("Group" bigint PRIMARY KEY, "名前" text);
INSERT INTO "注文" SELECT n, '名' || n FROM generate_series(0, 4) n;
INSERT INTO "Lager 1"."Order Items" SELECT n, 'größe ' || n % 3, n / 4.0, '2024-02-29 12:00Z', 'x', n % 5
    FROM generate_series(1, 300) n;
"""
PROJECT = """
project: Läden und mehr
sites: {New York: {cpu: 0.34 $/core-hour}, Zürich: {cpu: 0.34 $/core-hour}}
links: [{between: [New York, Zürich], bandwidth: 100 Mbps, latency: 10 ms, price: 0.01 $/GB}]
sources:
  Order Items: {kind: table, at: New York, postgres: {dsn: "${SHOP_DSN}", table: '"Lager 1"."Order Items"'}}
  注文: {kind: table, at: Zürich, postgres: {dsn: "${SHOP_DSN}", table: 'Public."注文"'}, key: [Group]}
contracts:
  Größe: {view: Größe, at: Zürich, freshness: 4 s,
          deliver: {postgres: {dsn: "${SHOP_DSN}", table: '"Lager 1"."Größe (Kopie)"'}}}
  select: {view: Ganz neu, at: New York, freshness: 20 s, refresh: full}
  summe: {view: summe, at: New York, freshness: 4 s, deliver: {delta: kopie/größe}}
"""
VIEWS = {
    "Größe": 'SELECT i."select", I."GRÖSSE" AS "Größe (cm)", i."Total Price", i."naïve café", o."名前", '
    'i."it\'s ""so"" 100%" AS "100%" FROM "Order Items" i JOIN "注文" AS o ON i."Group" = o."group" '
    'WHERE i."Total Price" < 70',
    "Ganz neu": 'SELECT "größe" AS "from", count(DISTINCT "Total Price") AS "Anzahl «verschiedene»", '
    'max("Total Price") AS "Max Price" FROM "Order Items" "o i" GROUP BY "größe"',
    "summe": 'SELECT "größe", sum("Total Price") AS "größte_summe" FROM "Order Items" GROUP BY "größe"',
}
BY_HAND = {
    "Größe": 'SELECT i."select", i."größe", i."Total Price", i."naïve café", o."名前", i."it\'s ""so"" 100%" '
    'FROM "Lager 1"."Order Items" i JOIN "注文" AS o ON i."Group" = o."Group" WHERE i."Total Price" < 70',
    "Ganz neu": 'SELECT "größe", count(DISTINCT "Total Price"), max("Total Price") FROM "Lager 1"."Order Items" '
    'GROUP BY "größe"',
    "summe": 'SELECT "größe", sum("Total Price") FROM "Lager 1"."Order Items" GROUP BY "größe"',
}


@pytest.fixture
def shop(
    tmp_path: Path,
    postgres_database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[RunningProject]:
    folder, dsn = tmp_path / "Läden 注文", postgres_database()
    (folder / "views").mkdir(parents=True)
    (folder / "headrace.yml").write_text(PROJECT, encoding="utf-8")
    for name, query in VIEWS.items():
        (folder / "views" / f"{name}.sql").write_text(query, encoding="utf-8")
    monkeypatch.setenv("SHOP_DSN", dsn)
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(TABLES.encode())
        try:
            yield RunningProject(folder, session, session, capsys)
        finally:
            main.run(["down", str(folder)])


def by_hand(shop: RunningProject, view: str) -> list[tuple[str, ...]]:
    return sorted(written(row) for row in shop.us.execute(BY_HAND[view].encode()))


def shown(shop: RunningProject, view: str, *options: str) -> list[tuple[str, ...]]:
    return [written(row) for row in shop.document("show", view, *options)["rows"]]


def written(row: Any) -> tuple[str, ...]:
    """Numbers and times are text in JSON, some with zeros at their end."""
    return tuple(f"{value}".replace(" ", "T").replace("+00:00", "Z") for value in row)


def test_any_names_work_from_a_table_to_its_copy(shop: RunningProject) -> None:
    assert "no mistakes" in shop.headrace("check", "--connect")
    document = shop.headrace("plan", "--json")
    (shop.folder / "plan.json").write_text(document, encoding="utf-8")
    assert main.run(["check-plan", str(shop.folder / "plan.json")]) == 0
    assert json.loads(document)["contracts"]
    assert "New York" in shop.headrace("why", "Größe")
    shop.up()
    for view in VIEWS:
        until(lambda view=view: sorted(shown(shop, view)) == by_hand(shop, view), f"{view} is loaded")  # type: ignore[misc]
    before = shop.document("show", "Größe")
    shop.us.execute(
        'UPDATE "Lager 1"."Order Items" SET "größe" = \'klein\', "Group" = 4 WHERE "select" BETWEEN 5 AND 9'
    )
    shop.us.execute('DELETE FROM "Lager 1"."Order Items" WHERE "select" = 17')
    shop.us.execute('UPDATE "注文" SET "名前" = \'neu\' WHERE "Group" = 4')
    for view in VIEWS:
        until(lambda view=view: sorted(shown(shop, view)) == by_hand(shop, view), f"{view} follows")  # type: ignore[misc]

    few = shown(shop, "Größe", '--where="Größe (cm)" = \'klein\' AND "SELECT" > 6', '--order="Total Price" DESC')
    assert [row[0] for row in few] == ["9", "8", "7"]
    lines = shop.headrace("changes", "Größe", f"--from={before['as_of']}").splitlines()
    assert any(json.loads(line)["row"]["Größe (cm)"] == "klein" for line in lines)
    assert headrace.read("Ganz neu", shop.folder).column_names == ["from", "Anzahl «verschiedene»", "Max Price"]
    path = urllib.parse.quote("Größe") + "?where=" + urllib.parse.quote('"100%" = \'x\' AND "select" = 9')
    status, answer = get(shop, f"/views/{path}")
    assert status == 200, answer
    assert [row[1] for row in json.loads(answer)["rows"]] == ["klein"]
    assert get(shop, f"/views/{urllib.parse.quote('Ganz neu')}/changes")[0] == 200

    names = '"select", "Größe (cm)", "Total Price", "naïve café", "名前", "100%"'
    copied = f'SELECT {names} FROM "Lager 1"."Größe (Kopie)"'
    until(
        lambda: sorted(written(row) for row in shop.us.execute(copied.encode())) == by_hand(shop, "Größe"),
        "it is delivered",
    )
    until(lambda: rows_of_delta(shop.folder / "kopie" / "größe") == by_hand(shop, "summe"), "it is in the folder")
    found = recomputed(shop)
    assert {one["view"] for one in found} == VIEWS.keys()
    assert all(one["equal"] for one in found), found


def rows_of_delta(folder: Path) -> list[tuple[str, ...]]:
    table = DeltaTable(str(folder)).to_pyarrow_table()
    return sorted(written(row.values()) for row in table.select(["größe", "größte_summe"]).to_pylist())
