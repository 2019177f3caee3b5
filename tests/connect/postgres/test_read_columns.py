"""Rows of tables are read for a plan that has to know them before anything captures them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import psycopg
import pytest

from headrace.app.explaining import explain
from headrace.app.planning import plan_document, plan_project
from headrace.connect.postgres.read_columns import read_columns
from headrace.doors.cli.why_text import explained_document
from headrace.model.catalogue import SourceColumn
from headrace.model.errors import ConnectError, UsageError
from headrace.model.plan import PlanOptions
from headrace.model.types import BIGINT, DOUBLE, STRING
from tests.declare.projects import write_project

TEXT = """
    project: friends
    sites: {core: {}}
    sources:
      people: {kind: table, at: core, key: uid, rate: 0 /s, postgres: {dsn: "${DSN}", table: people}}
      friends: {kind: table, at: core, rate: 0 /s, postgres: {dsn: "${DSN}", table: '"Friends"'}}
    devices:
      phones: {table: people, id: uid, capacity: room, streams: {location: {columns: {lat: double}, rate: 0.1 /s}}}
    templates:
      nearby: {per: {table: friends, a: who, b: whom}, devices: phones, view: near, every: {a: every_s}}
"""
NEAR = "SELECT x.lat FROM a.location x JOIN b.location y ON x.lat = y.lat"


@pytest.fixture
def tables(postgres_dsn: str) -> str:
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute("CREATE TABLE people (uid text PRIMARY KEY, room int)")
        session.execute('CREATE TABLE "Friends" (who text, whom text, every_s float8)')
        session.execute('ALTER TABLE "Friends" REPLICA IDENTITY FULL')
        session.execute("INSERT INTO people VALUES ('anna', 5), ('bob', 5), ('', NULL), ('o,\"x\ny', 1)")
        rows = "('anna', 'bob', 3600), ('anna', NULL, 1), ('anna', 'o,\"x\ny', NULL), ('zoe', 'bob', 1)"
        session.execute(f'INSERT INTO "Friends" VALUES {rows}')
    return postgres_dsn


def test_columns_are_read_with_their_types_and_nulls(tables):
    columns = [SourceColumn("who", STRING), SourceColumn("whom", STRING), SourceColumn("every_s", DOUBLE)]
    found = read_columns(tables, '"Friends"', columns).to_pydict()
    assert found == {
        "who": ["anna", "anna", "anna", "zoe"],
        "whom": ["bob", None, 'o,"x\ny', "bob"],
        "every_s": [3600.0, 1.0, None, 1.0],
    }
    people = read_columns(tables, "people", [SourceColumn("uid", STRING), SourceColumn("room", BIGINT)])
    assert people["uid"].to_pylist()[2] == ""
    assert people["room"].to_pylist()[2] is None


def test_a_table_without_rows_has_columns(postgres_dsn):
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute("CREATE TABLE nobody (uid bigint)")
    found = read_columns(postgres_dsn, "nobody", [SourceColumn("uid", BIGINT)])
    assert (found.num_rows, found.column_names) == (0, ["uid"])


def test_a_table_that_is_gone_is_told_of(postgres_dsn):
    with pytest.raises(ConnectError, match="nothing_here"):
        read_columns(postgres_dsn, "nothing_here", [SourceColumn("uid", BIGINT)])


def test_a_plan_places_the_pairs_of_tables(tmp_path: Path, tables):
    folder = write_project(tmp_path, TEXT, near=NEAR)
    plan = plan_project(folder, {"DSN": tables}, PlanOptions())
    (nearby,) = plan.templates
    assert (nearby.devices, nearby.pairs, nearby.on_devices, nearby.unread) == (4, 2, 1, "")
    told = json.loads(json.dumps(plan_document(plan)))["templates"][0]
    assert (told["id"], told["on_devices"]) == ("nearby", 1)
    found = explain(folder, {"DSN": tables}, "nearby:anna,bob")
    assert explained_document("nearby:anna,bob", found, {"contracts": []})["answers"][0]["at"] == "bob"  # type: ignore[index]


def test_a_database_that_is_away_leaves_the_placement_open(tmp_path: Path, tables):
    columns = "columns: {uid: string, room: int}, rows: 4, rate: 0 /s, postgres"
    pairs = "columns: {who: string, whom: string, every_s: double}, rows: 9, rate: 0 /s, postgres"
    text = TEXT.replace("rate: 0 /s, postgres", columns, 1).replace(
        "at: core, rate: 0 /s, postgres", f"at: core, {pairs}"
    )
    folder = write_project(tmp_path, text, near=NEAR)
    nowhere = {"DSN": "postgresql://nobody@127.0.0.1:1/none"}
    (nearby,) = plan_project(folder, nowhere, PlanOptions()).templates
    assert nearby.placed is None
    assert nearby.unread
    with pytest.raises(UsageError, match="cannot be placed without the rows of its tables"):
        explain(folder, nowhere, "nearby:anna,bob")
    (unset,) = plan_project(folder, {}, PlanOptions()).templates
    assert "DSN" in unset.unread


def test_text_ids_are_numbered_as_they_are(tables):
    from headrace.app.template_rows import read_arrays

    found = read_arrays(read_columns(tables, "people", [SourceColumn("uid", STRING)]), frozenset({"uid"}))
    assert found["uid"].dtype.kind == "U"
    assert np.array_equal(np.sort(found["uid"]), np.sort(np.array(["anna", "bob", "", 'o,"x\ny'])))
