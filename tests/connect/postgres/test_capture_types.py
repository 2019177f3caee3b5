"""Values of every type that sources may have, through the log and through a reading of the table: the same."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import psycopg

from headrace.connect.files import FileStore
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.capture_settings import CaptureSettings
from headrace.connect.postgres.inspect import inspect_sources
from headrace.connect.postgres.source import make_captured_table
from headrace.model.catalogue import PostgresTable, Source, SourceKind
from headrace.model.errors import Location, Severity
from tests.connect.postgres.spools import spool_rows

CREATE = """
CREATE TYPE mood AS ENUM ('sad', 'so la la');
CREATE DOMAIN price AS numeric(8,3);
CREATE DOMAIN code AS char(5);
CREATE DOMAIN feeling AS mood;
CREATE TYPE place AS (street text, number int);
CREATE TABLE "Ding" (
    k int PRIMARY KEY, "Größe (cm)" smallint, big bigint, yes boolean, r real, d double precision, n numeric(20,4),
    free numeric, t text, vc varchar(9), c char(3), u uuid, j json, jb jsonb, m mood, p price, by bytea, da date,
    ts timestamp, tz timestamptz, ia int[], ta text[], na numeric(5,1)[], tza timestamptz[], cd code,
    tm time, tmz timetz(3), iv interval, ip inet, fe feeling, ma mood[], pl place, pla place[], ra int4range,
    tma time[], bits bit varying(8), wide numeric(60,20), wn numeric(50,2), cents numeric(5,-2),
    grid int[][], money_is_left_out money)
"""

INSERT = """
INSERT INTO "Ding" VALUES
    (1, -5, 9223372036854775807, true, 1.5, 0.1, 1234567890123456.7891, 3.14, 'naïve 🐘', 'it''s', 'ab',
     'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a":  1}', '{"b":2}', 'so la la', 7.5, '\\x00ff', '2026-02-28',
     '2026-02-28 01:02:03.000004', '2026-02-28 01:02:03.5+05:30', '{1,NULL,3}', '{"a b",NULL,"NULL",""}', '{1.5,-2}',
     '{2026-02-28 00:00:00+01}', ' x', '01:02:03.5', '01:02:03+02', '1 year 2 days 03:00', '10.0.0.1/8', 'sad',
     '{sad,NULL,"so la la"}', ('High St', 7), ARRAY[('a b', 1)::place, NULL], '[1,5)', '{01:00,NULL}', B'101',
     1.5, 123456789012345678901234567890.12, 12345, '{{1,2},{3,NULL}}', 3),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '', '', NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, '{}',
     NULL, NULL, NULL, '', REST),
    (3, 0, 0, false, 'NaN', '-Infinity', -0.0001, 1e-18, E'tab\\tline\\n\\\\', NULL, NULL, NULL, NULL, NULL, 'sad', -1,
     NULL, 'infinity', '-infinity', 'infinity', NULL, NULL, NULL, NULL, NULL, REST)
""".replace("REST", ", ".join(["NULL"] * 16))

FIRST: dict[str, Any] = {
    "k": 1,
    "Größe (cm)": -5,
    "big": 2**63 - 1,
    "yes": True,
    "r": 1.5,
    "d": 0.1,
    "n": Number("1234567890123456.7891"),
    "free": Number("3.140000000000000000"),
    "t": "naïve 🐘",
    "vc": "it's",
    "c": "ab",
    "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "j": '{"a":  1}',
    "jb": '{"b": 2}',
    "m": "so la la",
    "p": Number("7.500"),
    "by": b"\0\xff",
    "da": dt.date(2026, 2, 28),
    "ts": dt.datetime(2026, 2, 28, 1, 2, 3, 4, dt.UTC),
    "tz": dt.datetime(2026, 2, 27, 19, 32, 3, 500_000, dt.UTC),
    "ia": [1, None, 3],
    "ta": ["a b", None, "NULL", ""],
    "na": [Number("1.5"), Number("-2.0")],
    "tza": [dt.datetime(2026, 2, 27, 23, tzinfo=dt.UTC)],
    "cd": " x",
    "tm": "01:02:03.5",
    "tmz": "01:02:03+02",
    "iv": "1 year 2 days 03:00:00",
    "ip": "10.0.0.1/8",
    "fe": "sad",
    "ma": ["sad", None, "so la la"],
    "pl": '("High St",7)',
    "pla": ['("a b",1)', None],
    "ra": "[1,5)",
    "tma": ["01:00:00", None],
    "bits": "101",
    "wide": Number("1.500000000000000000"),
    "wn": Number("123456789012345678901234567890.12"),
    "cents": Number("12300"),
    "grid": [[1, 2], [3, None]],
}


def test_values_of_all_types_are_the_same_by_the_log_and_by_reading(postgres_dsn: str, tmp_path: Path):
    declared = Source(
        name="dinge", kind=SourceKind.TABLE, site="us", key=("k",), columns=None, rows=None, rate=None, static=False,
        parent_first=False, stays=None, time=None, retention_s=None, origin=PostgresTable("${D}", 'public."Ding"'),
        declared_at=Location("headrace.yml"),
    )  # fmt: skip
    ledger, store = open_sqlite(tmp_path / "ledger.db"), FileStore(tmp_path / "files")
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        name = connection.info.dbname
        for statement in (*CREATE.split(";"), f"ALTER DATABASE {name} SET datestyle = 'German, DMY'",
                          f"ALTER DATABASE {name} SET timezone = 'Asia/Kolkata'", INSERT):  # fmt: skip
            connection.execute(statement.encode())
        found, problems = inspect_sources({"dinge": declared}, {"${D}": postgres_dsn})
        assert not [problem for problem in problems if problem.severity is Severity.ERROR]
        captured = make_captured_table(found["dinge"])
        capture = Capture(CaptureSettings("p", "d", postgres_dsn, (captured,), tmp_path / "scratch"), ledger, store)
        capture.catch_up()
        connection.execute('DELETE FROM "Ding"')
        connection.execute(INSERT.encode())
        capture.catch_up()
        capture.close()
    rows = [row for row in spool_rows(captured, ledger, store) if row["__op"] == "u"]
    ledger.close()
    read, logged = ([{name: row[name] for name in captured.names} for row in part] for part in (rows[:3], rows[3:]))
    assert read[0] == logged[0] == FIRST
    assert {name for name, value in read[1].items() if value is not None} == {"k", "t", "vc", "c", "by", "ia", "cd"}
    assert (read[1]["c"], read[1]["cd"]) == ("", "")
    assert read[1] == logged[1]
    for row in (read[2], logged[2]):
        assert math.isnan(row["r"])
        assert row["d"] == -math.inf
        assert row["t"] == "tab\tline\n\\"
        assert row["free"] == Number("0.000000000000000001")
        assert (row["da"], row["ts"].year, row["tz"].year) == (dt.date(9999, 12, 31), 1, 9999)
