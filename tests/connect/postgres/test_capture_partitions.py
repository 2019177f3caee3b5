"""Partitioned tables are captured as one; tables that others inherit from are not captured at all."""

from __future__ import annotations

from contextlib import closing

import pytest

from headrace.connect.postgres.capture_settings import SourceRecovered
from headrace.model.errors import ConnectError
from headrace.model.event_wire import EventsAsked
from headrace.model.plan_events import SourcesReread
from headrace.model.types import INT, STRING
from headrace.run.capture.spool import CapturedTable
from tests.connect.postgres.capture_place import Place
from tests.connect.postgres.histories import PLAIN
from tests.connect.postgres.spools import Bag, bag
from tests.connect.postgres.test_capture_changed_tables import Following
from tests.connect.postgres.test_capture_process import wait_for
from tests.connect.postgres.test_capture_stopped import running

SALES = CapturedTable("sales", "us", "sales", (("id", INT), ("day", INT), ("v", STRING)), ("id", "day"))
FIRST = CapturedTable("first", "us", "sales_1", (("id", INT), ("day", INT), ("v", STRING)), ("id", "day"))
CREATE = """CREATE TABLE sales (id int, day int, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM (0) TO (10);
CREATE TABLE sales_2 (v text, day int NOT NULL, dropped int, id int NOT NULL, PRIMARY KEY (id, day));
ALTER TABLE sales_2 DROP COLUMN dropped;
ALTER TABLE sales ATTACH PARTITION sales_2 FOR VALUES FROM (10) TO (20);
CREATE TABLE sales_3 PARTITION OF sales FOR VALUES FROM (20) TO (30) PARTITION BY LIST (id);
CREATE TABLE sales_3_odd PARTITION OF sales_3 DEFAULT;
INSERT INTO sales SELECT i, i % 30, 'v' || i FROM generate_series(1, 100) i"""


def rows_of(place: Place, table: str = "sales") -> Bag:
    return bag(place.connection.execute(f"SELECT id, day, v FROM {table}".encode()).fetchall())


def test_a_partitioned_table_is_captured_as_one(place: Place) -> None:
    """Rows come by their partitions or by the table, go to another partition, and are truncated with the table."""
    place.execute(CREATE)
    with running(place, SALES, PLAIN):
        wait_for(lambda: place.captured(SALES) == rows_of(place))
        for statements in (
            """INSERT INTO sales VALUES (200, 5, 'through the table'), (201, 25, 'deeper');
INSERT INTO sales_2 VALUES ('into a partition', 15, 202);
UPDATE sales SET day = 25 WHERE day = 3;
UPDATE sales SET v = 'other' WHERE day = 12;
DELETE FROM sales_3_odd WHERE id < 60""",
            "TRUNCATE sales;\nINSERT INTO sales VALUES (1, 1, 'a'), (2, 11, 'b')",
        ):
            place.execute(statements)
            wait_for(lambda: place.captured(SALES) == rows_of(place))


def test_a_partition_of_a_source_is_no_source_beside_it_and_a_source_by_itself(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    place.execute(CREATE)
    capture = place.capture(FIRST)
    capture.catch_up()
    place.execute("INSERT INTO sales VALUES (300, 5, 'x')")
    capture.catch_up()
    capture.close()
    assert place.captured(FIRST) == rows_of(place, "sales_1")
    for _ in range(2):
        capture = place.capture(SALES, FIRST)
        capture.catch_up()
        capture.close()
    assert place.ledger.notes("quarantine:") == {
        "quarantine:first": "public.sales_1 is a partition of public.sales, which is a source as well: "
        "its changes come under the name of public.sales"
    }
    assert place.captured(SALES) == rows_of(place)
    with closing(place.capture(SALES, FIRST)) as capture:
        place.execute("CREATE UNLOGGED TABLE sales_9 PARTITION OF sales FOR VALUES FROM (900) TO (901)")
        wait_for(lambda: capture.step(0.01) is not None and "quarantine:sales" in place.ledger.notes())
        place.execute("ALTER TABLE sales DETACH PARTITION sales_1;\nINSERT INTO sales_1 VALUES (400, 5, 'alone')")
        with pytest.raises(SourceRecovered):
            wait_for(lambda: capture.step(0.01) is None, 30.0)
    with closing(place.capture(SALES, FIRST)) as capture:
        capture.catch_up()
    assert set(place.ledger.notes("quarantine:")) == {"quarantine:sales"}
    assert place.captured(FIRST) == rows_of(place, "sales_1")


def test_a_publication_of_an_earlier_version_is_made_to_publish_tables_instead_of_partitions(place: Place) -> None:
    place.execute(CREATE)
    name = place.settings(SALES).names.tables
    place.execute(f'CREATE PUBLICATION "{name}" FOR TABLE sales')
    capture = place.capture(SALES)
    capture.catch_up()
    place.execute("INSERT INTO sales VALUES (300, 5, 'x')")
    capture.catch_up()
    capture.close()
    assert place.captured(SALES) == rows_of(place)


def test_a_table_that_others_come_to_inherit_from_is_stopped_until_they_do_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    place.execute("INSERT INTO plain VALUES (1, 0, 'x')")
    capture = place.capture(PLAIN)
    capture.catch_up()
    place.execute("CREATE TABLE heir () INHERITS (plain);\nINSERT INTO heir VALUES (2, 0, 'of the heir')")
    capture.catch_up()
    assert place.ledger.notes("quarantine:") == {
        "quarantine:plain": "public.plain has tables that inherit from it (public.heir): "
        "changes of their rows are not in its log"
    }
    capture.close()
    capture = place.capture(PLAIN)
    capture.catch_up()
    assert place.ledger.notes("quarantine:") and place.captured(PLAIN) == bag([(1, "x")]), "also after a restart"
    place.execute(place.ledger.notes()["mend:plain"].partition(";")[0])
    with pytest.raises(ConnectError, match="can be captured again"):
        capture.step()
    capture.close()
    capture = place.capture(PLAIN)
    capture.catch_up()
    capture.close()
    assert not place.ledger.notes("quarantine:") and place.captured(PLAIN) == bag([(1, "x")])


def test_partitions_that_come_go_or_are_truncated_have_their_table_read_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of it is in the log of the table."""
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    place.execute(CREATE)
    with running(place, SALES) as told:
        wait_for(lambda: place.captured(SALES) == rows_of(place))
        for statements in (
            "CREATE TABLE sales_4 (LIKE sales INCLUDING ALL);\nINSERT INTO sales_4 VALUES (500, 33, 'attached');\n"
            "ALTER TABLE sales ATTACH PARTITION sales_4 FOR VALUES FROM (30) TO (40)",
            "ALTER TABLE sales DETACH PARTITION sales_1",
            "TRUNCATE sales_2",
            "DROP TABLE sales_3_odd",
        ):
            place.execute(statements)
            wait_for(lambda: place.captured(SALES) == rows_of(place))
            place.execute("INSERT INTO sales VALUES (1000, 12, 'after'), (1001, 34, 'after')")
            wait_for(lambda: place.captured(SALES) == rows_of(place))
            place.execute("DELETE FROM sales WHERE id >= 1000")
    assert "failed" not in told
    place.execute("ALTER TABLE sales DETACH PARTITION sales_4")
    capture = place.capture(SALES)
    capture.catch_up()
    capture.close()
    assert place.captured(SALES) == rows_of(place), "also while no capture ran"


MAINTENANCE: dict[str, tuple[str, str | None]] = {
    "VACUUM FULL of a partition": ("VACUUM FULL sales_1", None),
    "VACUUM FULL of all partitions": ("VACUUM FULL sales", None),
    "CLUSTER": ("CLUSTER sales_2 USING sales_2_pkey", None),
    "VACUUM FULL after changes": ("DELETE FROM sales_1 WHERE id % 2 = 0;\nVACUUM FULL sales_1", None),
    "SET STATISTICS": ("ALTER TABLE sales_1 ALTER v SET STATISTICS 5", None),
    "VACUUM FULL later": ("VACUUM FULL sales_1", None),
    "TRUNCATE": ("TRUNCATE sales_2", "were attached, detached or truncated"),
    "TRUNCATE, then rows": (
        "TRUNCATE sales_1;\nINSERT INTO sales VALUES (700, 5, 'new');\nVACUUM FULL sales_1",
        "were attached, detached or truncated",
    ),
    "TRUNCATE of the table": ("TRUNCATE sales;\nINSERT INTO sales VALUES (701, 5, 'new'), (702, 15, 'new')", "were "),
    "USING": ("ALTER TABLE sales ALTER v TYPE text USING v || '!'", "a statement rewrote the values of its table"),
    "USING undone": ("ALTER TABLE sales ALTER v TYPE text USING replace(v, '!', '')", "a statement rewrote"),
}


@pytest.mark.parametrize("runs", [True, False], ids=["while it runs", "while it is down"])
def test_partitions_are_read_again_only_if_their_rows_are_others(
    place: Place, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    place.execute(CREATE)
    following = Following(place, tables=(SALES,))
    following.catch_up()
    for fault, (statements, why) in MAINTENANCE.items():
        told = len(place.ledger.events(EventsAsked(limit=1000)))
        if not runs:
            following.close()
        place.execute(statements)
        for _ in range(2):  # what is looked at now may be noted with the next batch
            following.catch_up()
        assert place.captured(SALES) == rows_of(place), fault
        found = [one.event for one in place.ledger.events(EventsAsked(limit=1000))][told:]
        reasons = [str(one.reason) for one in found if isinstance(one, SourcesReread)]
        assert bool(reasons) == (why is not None) and all((why or "") in one for one in reasons), (fault, reasons)
    following.close()
