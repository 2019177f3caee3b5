"""Tables that somebody drops, swaps, migrates or publishes otherwise: what the log does not tell is read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from psycopg.conninfo import make_conninfo

from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.capture_settings import SourceChanged, SourceRecovered
from headrace.connect.postgres.slots import capture_names
from headrace.model.event_wire import EventsAsked
from headrace.model.plan_events import SourcesReread
from headrace.model.types import BIGINT, INT, STRING, TIMESTAMP
from headrace.run.capture.spool import CapturedTable
from tests.connect.postgres.capture_place import Place
from tests.connect.postgres.spools import Bag, bag

THING = CapturedTable(
    "thing",
    "us",
    "public.thing",
    (
        ("id", BIGINT),
        ("a", STRING),
        ("b", STRING),
        ("n", INT),
        ("c", STRING),
        ("j", STRING),
        ("w", TIMESTAMP),
        ("m", STRING),
    ),
    ("id",),
)
LINE = CapturedTable("line", "us", "line", (("v", STRING), ("n", INT)))
OTHER = CapturedTable("other", "us", "other", (("id", INT), ("v", STRING)), ("id",))
TABLES = (THING, LINE, OTHER)
CREATE = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE thing (id bigint PRIMARY KEY, a text, b text, n int, c char(5), j json, w timestamptz, m mood);
CREATE TABLE line (v text, n int);
ALTER TABLE line REPLICA IDENTITY FULL;
CREATE TABLE other (id int PRIMARY KEY, v text);
INSERT INTO thing SELECT g, 'a' || g, 'b' || g, g, 'c', '{"x":  1}', '2020-01-01 12:00+02', 'sad'
FROM generate_series(1, 20) g;
INSERT INTO line SELECT 'l' || g, g FROM generate_series(1, 20) g;
INSERT INTO other SELECT g, 'o' || g FROM generate_series(1, 20) g
"""
NAMES = capture_names("test", "main")
COPY = "CREATE TABLE thing (LIKE thing_old INCLUDING ALL)"


@dataclass
class Following:
    """Captures as the process does: after a change of a table, a new capture takes over."""

    place: Place
    capture: Capture | None = None
    reasons: list[str] = field(default_factory=list)
    tables: tuple[CapturedTable, ...] = TABLES

    def catch_up(self) -> list[str]:
        """Why captures were opened anew."""
        self.reasons = []
        while True:
            try:
                self.capture = self.capture or self.place.capture(*self.tables)
                self.capture.catch_up()
                return self.reasons
            except (SourceChanged, SourceRecovered) as error:
                self.reasons.append(str(error))
                self.close()

    def close(self) -> None:
        if self.capture is not None:
            self.capture.close()
        self.capture = None


@pytest.fixture
def following(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Following]:
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    place.execute(CREATE)
    found = Following(place)
    found.catch_up()
    yield found
    found.close()


def contents(place: Place, table: CapturedTable) -> Bag:
    columns = ", ".join(f"{name}::text" if name in ("c", "j", "m") else name for name in table.names)
    columns = columns.replace("w,", "w::timestamp AT TIME ZONE 'UTC',")
    return bag(place.connection.execute(f"SELECT {columns} FROM {table.table}".encode()).fetchall())


FAULTS: dict[str, tuple[str, str | None]] = {
    "nothing": ("SELECT 1", None),
    "VACUUM FULL": ("VACUUM FULL thing", None),
    "SET STATISTICS": ("ALTER TABLE thing ALTER a SET STATISTICS 5", None),
    "CLUSTER": ("CLUSTER thing USING thing_pkey", None),
    "SET DEFAULT": ("ALTER TABLE thing ALTER a SET DEFAULT 'x'", None),
    "TRUNCATE": ("TRUNCATE line;\nINSERT INTO line VALUES ('after', 1)", None),
    "REINDEX": ("REINDEX TABLE CONCURRENTLY thing", None),
    "a column more": ("ALTER TABLE thing ADD more float DEFAULT random()", None),
    "a value more": ("ALTER TYPE mood ADD VALUE 'mad' BEFORE 'sad'", None),
    "a value renamed": ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", 'the value "sad" of its column "m"'),
    "dropped and created": (
        "DROP TABLE other;\nCREATE TABLE other (id int PRIMARY KEY, v text);\nINSERT INTO other VALUES (7, 'anew')",
        "its table was created again, or another table took its name",
    ),
    "swapped": (
        "CREATE TABLE green (LIKE thing INCLUDING ALL);\nINSERT INTO green SELECT * FROM thing WHERE id % 2 = 0;\n"
        "BEGIN;\nALTER TABLE thing RENAME TO blue;\nALTER TABLE green RENAME TO thing;\nCOMMIT;\n"
        "INSERT INTO blue SELECT id + 1000, a, b, n, c, j, w, m FROM blue",
        "its table was created again, or another table took its name",
    ),
    "dropped and added": (
        "ALTER TABLE thing DROP a;\nALTER TABLE thing ADD a text DEFAULT 'added'",
        'its column "a" was added again',
    ),
    "names swapped": (
        "BEGIN;\nALTER TABLE thing RENAME a TO x;\nALTER TABLE thing RENAME b TO a;\n"
        "ALTER TABLE thing RENAME x TO b;\nCOMMIT",
        'its column "a" was added again, or another column took its name',
    ),
    "USING": ("ALTER TABLE thing ALTER n TYPE int USING n * 2", "a statement rewrote the values of its table"),
    "char to text": ("ALTER TABLE thing ALTER c TYPE text", 'its column "c" has another type now'),
    "json to jsonb": ("ALTER TABLE thing ALTER j TYPE jsonb", 'its column "j" has another type now'),
    "timestamp": (
        "SET timezone = 'Asia/Tokyo';\nALTER TABLE thing ALTER w TYPE timestamp;\nRESET timezone",
        'its column "w" has another type now',
    ),
    "not published": (
        f"ALTER PUBLICATION {NAMES.tables} DROP TABLE thing;\nUPDATE thing SET n = n + 1;\n"
        f"ALTER PUBLICATION {NAMES.tables} ADD TABLE thing",
        "its table was not published, or not completely, for a while",
    ),
    "not published any more": (
        f"ALTER PUBLICATION {NAMES.tables} DROP TABLE thing;\nUPDATE thing SET n = n + 1",
        "its table was not published, or not completely, for a while",
    ),
    "a row filter": (
        f"ALTER PUBLICATION {NAMES.tables} SET TABLE thing WHERE (id > 10), line, other;\nUPDATE thing SET n = n + 1",
        "its table was not published, or not completely, for a while",
    ),
    "a column list": (
        f"ALTER PUBLICATION {NAMES.tables} SET TABLE thing (id, a), line, other;\nUPDATE thing SET n = n + 1",
        "its table was not published, or not completely, for a while",
    ),
    "insertions only": (
        f"ALTER PUBLICATION {NAMES.tables} SET (publish = 'insert');\nUPDATE thing SET n = n + 1;\nDELETE FROM line",
        "its table was not published, or not completely, for a while",
    ),
    "publication dropped": (f"DROP PUBLICATION {NAMES.tables};\nUPDATE thing SET n = n + 1", "its "),
    "insertions only for a while": (
        f"ALTER PUBLICATION {NAMES.tables} SET (publish = 'insert');\nUPDATE thing SET n = n + 1;\nDELETE FROM line;\n"
        f"ALTER PUBLICATION {NAMES.tables} SET (publish = 'insert, update, delete, truncate')",
        "its table was not published, or not completely, for a while",
    ),
}
AFTER = "UPDATE thing SET b = b || '.' WHERE id = 2;\nINSERT INTO line VALUES ('x', 1);\nDELETE FROM other WHERE id = 1"


@pytest.mark.parametrize("runs", [True, False], ids=["while it runs", "while it is down"])
def test_what_the_log_does_not_tell_of_a_table_is_read_again_and_nothing_else(following: Following, runs: bool):
    place = following.place
    events = EventsAsked(limit=1000)
    for fault, (statements, why) in FAULTS.items():
        told = len(place.ledger.events(events))
        if not runs:
            following.close()
        place.execute(statements)
        place.execute(AFTER)
        following.catch_up()
        for table in TABLES:
            assert place.captured(table) == contents(place, table), (fault, table.source)
        found = [one.event for one in place.ledger.events(events)][told:]
        reread = [one.reason for one in found if isinstance(one, SourcesReread)]
        assert bool(reread) == (why is not None) and all((why or "") in str(one) for one in reread), (fault, reread)
        for kind in ("missed:", "obsolete:", "quarantine:", "load:"):
            assert place.ledger.notes(kind) == {}, fault
        place.execute(AFTER)
        assert following.catch_up() == [], (fault, "it is read once")


@pytest.mark.parametrize("looks", [True, False], ids=["looks at once", "looks later"])
def test_a_table_that_is_replaced_before_its_first_rows_are_read_loses_no_changes(
    place: Place, monkeypatch: pytest.MonkeyPatch, looks: bool
):
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0 if looks else 1000.0)
    place.execute(CREATE)
    place.execute("CREATE TABLE twin (id int PRIMARY KEY, v text);\nINSERT INTO twin VALUES (1, 'twin')")
    place.execute(f"CREATE PUBLICATION {NAMES.tables} FOR ALL TABLES WITH (publish_via_partition_root = true)")
    tables = (OTHER, replace(OTHER, source="twin", table="twin"), LINE)
    following = Following(place, place.capture(*tables), tables=tables)
    place.execute("""BEGIN;
ALTER TABLE other RENAME TO x;
ALTER TABLE twin RENAME TO other;
ALTER TABLE x RENAME TO twin;
DROP TABLE line;
CREATE TABLE line (v text, n int);
ALTER TABLE line REPLICA IDENTITY FULL;
COMMIT""")
    for change in ("'later', 1", "'last', 2"):
        following.catch_up()
        place.execute(f"INSERT INTO line VALUES ({change})")
        place.execute("UPDATE other SET v = v || '.' WHERE id = 1;\nUPDATE twin SET v = v || '+' WHERE id < 3")
    following.catch_up()
    following.close()
    for table in tables:
        assert place.captured(table) == contents(place, table), table.source


def test_a_static_table_that_changed_is_read_again(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    place.execute(CREATE)
    static = replace(THING, static=True)
    following = Following(place, tables=(static, OTHER))
    following.catch_up()
    for runs in (True, False):
        if not runs:
            following.close()
        place.execute("ALTER TABLE thing ALTER n TYPE int USING n * 2")
        for _ in range(2):  # one that notices, one that reads
            following.catch_up()
        assert place.captured(static) == contents(place, static)
        assert place.ledger.notes("missed:") == place.ledger.notes("load:") == {}
    following.close()


def test_a_publication_that_is_not_ours_stops_the_source_until_its_owner_puts_it_right(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    role, publication = "changed_reader", NAMES.tables
    monkeypatch.setattr("headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S", 0.0)
    place.execute(CREATE)
    place.execute(f"""DROP ROLE IF EXISTS {role};
CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x';
GRANT SELECT ON thing, line, other TO {role};
CREATE PUBLICATION {publication} FOR TABLE thing, line, other;
CREATE PUBLICATION {NAMES.streams}""")
    following = Following(replace(place, dsn=make_conninfo(place.dsn, user=role, password="x")))
    try:
        following.catch_up()
        faults = {
            f"ALTER PUBLICATION {publication} SET TABLE thing WHERE (id > 5), line, other": 1,
            f"ALTER PUBLICATION {publication} SET (publish = 'insert')": 3,
        }
        for fault, stopped in faults.items():
            place.execute(fault)
            place.execute("UPDATE thing SET n = n + 1")
            following.catch_up()
            notes = place.ledger.notes()
            assert len([name for name in notes if name.startswith("quarantine:")]) == stopped, notes
            for statement in notes["mend:thing"].split(";")[:-1]:
                place.execute(statement)
            following.catch_up()
            assert place.ledger.notes("quarantine:") == {}
            for table in TABLES:
                assert place.captured(table) == contents(place, table)
    finally:
        following.close()
        place.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER;\nDROP OWNED BY {role};\nDROP ROLE {role}")
