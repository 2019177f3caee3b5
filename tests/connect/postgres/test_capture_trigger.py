"""An event trigger of ours tells of changes of tables that are made and undone between two looks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from psycopg.conninfo import make_conninfo

from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.ddl_trigger import TOLD, read_told
from headrace.connect.postgres.sessions import connect_session
from headrace.connect.postgres.slots import CaptureNames, capture_names, remove_capture
from headrace.model.event_wire import EventsAsked
from headrace.model.plan_events import SourcesReread
from tests.connect.postgres.capture_place import Place
from tests.connect.postgres.test_capture_changed_tables import CREATE, LINE, OTHER, THING, Following, contents
from tests.connect.postgres.test_capture_partitions import CREATE as CREATE_SALES
from tests.connect.postgres.test_capture_partitions import SALES, rows_of

NAMES = capture_names("test", "main")
WATCHED = tuple(replace(table, has_trigger=True) for table in (THING, OTHER, SALES))
TABLES = (*WATCHED, LINE)
LOOKS = "headrace.connect.postgres.capture.LOOK_AT_TABLES_EVERY_S"
NEVER = 1e12


@pytest.fixture
def watching(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Following]:
    """Nobody looks at tables: what is seen is what the trigger tells."""
    monkeypatch.setattr(LOOKS, NEVER)
    place.execute(CREATE)
    place.execute(CREATE_SALES)
    found = Following(place, tables=TABLES)
    found.catch_up()
    yield found
    found.close()
    with connect_session(place.dsn) as session:
        remove_capture(session, NAMES)
    assert count_triggers(place, NAMES) == 0


def count_triggers(place: Place, names: CaptureNames) -> int:
    query = "SELECT count(*) FROM pg_event_trigger WHERE evtname LIKE %s"
    row = place.connection.execute(query, [names.slot + "%"]).fetchone()
    assert row is not None
    schemas = place.connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", [names.slot]).fetchall()
    assert bool(row[0]) == bool(schemas)
    return int(row[0])


def find_reasons(following: Following, statements: str) -> list[str]:
    """Why sources were read again after these."""
    place, asked = following.place, EventsAsked(limit=1000)
    told = len(place.ledger.events(asked))
    place.execute(statements)
    for _ in range(2):
        following.catch_up()
    for table in (THING, OTHER, LINE):
        assert place.captured(table) == contents(place, table), (statements, table.source)
    assert place.captured(SALES) == rows_of(place), statements
    found = [one.event for one in place.ledger.events(asked)][told:]
    return [f"{one.sources[0]}: {one.reason}" for one in found if isinstance(one, SourcesReread)]


UNDONE: dict[str, tuple[str, list[str]]] = {
    "a value renamed": (
        "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue';\nUPDATE thing SET m = 'blue' WHERE id = 1;\n"
        "ALTER TYPE mood RENAME VALUE 'blue' TO 'sad'",
        ['thing: the value "sad" of its column "m" is called "blue" now'],
    ),
    "swapped": (
        "ALTER TABLE other RENAME TO x;\nALTER TABLE x RENAME TO other",
        ['other: table "other" was not there for a while'],
    ),
    "a partition detached": (
        "ALTER TABLE sales DETACH PARTITION sales_1;\nUPDATE sales_1 SET v = 'alone';\n"
        "ALTER TABLE sales ATTACH PARTITION sales_1 FOR VALUES FROM (0) TO (10)",
        ["sales: partitions of its table were attached, detached or truncated"],
    ),
    "a partition unlogged": (
        "ALTER TABLE sales_1 SET UNLOGGED;\nUPDATE sales_1 SET v = 'not logged' WHERE id = 31;\n"
        "ALTER TABLE sales_1 SET LOGGED",
        ["sales: "],  # the trigger tells, or a look finds that all rows were written anew
    ),
    "in a large transaction": (
        "BEGIN;\nALTER TYPE mood RENAME VALUE 'sad' TO 'blue';\n"
        "INSERT INTO thing SELECT g, repeat('x', 500), '', 0, '', '{}', now(), 'blue'\n"
        "FROM generate_series(500, 900) g;\n"
        "COMMIT;\nALTER TYPE mood RENAME VALUE 'blue' TO 'sad'",
        ['thing: the value "sad" of its column "m" is called "blue" now'],
    ),
    "rolled back": (
        "BEGIN;\nALTER TYPE mood RENAME VALUE 'sad' TO 'blue';\nUPDATE thing SET n = n + 1;\nROLLBACK;\n"
        "BEGIN;\nINSERT INTO thing SELECT g, repeat('x', 500), '', 0, '', '{}', now()\n"
        "FROM generate_series(1500, 1900) g;\n"
        "SAVEPOINT a;\nALTER TYPE mood RENAME VALUE 'sad' TO 'blue';\nROLLBACK TO a;\nCOMMIT",
        [],
    ),
    "what does not matter": (
        "CREATE TABLE more (id int);\nDROP TABLE more;\nALTER TABLE thing ALTER a SET STATISTICS 5;\n"
        "CREATE INDEX ON thing (a);\nCREATE TEMP TABLE thing_temp (id int);\nDROP TABLE thing_temp",
        [],
    ),
}


@pytest.mark.parametrize("runs", [True, False], ids=["while it runs", "while it is down"])
def test_a_change_that_is_undone_before_anybody_looks_is_seen(watching: Following, runs: bool):
    for fault, (statements, reasons) in UNDONE.items():
        if not runs:
            watching.close()
        found = find_reasons(watching, statements)
        assert len(found) == len(reasons), (fault, found)
        assert all(one.startswith(reason) for one, reason in zip(found, reasons, strict=True)), (fault, found)


def test_whatever_happens_to_the_trigger_statements_of_others_work_and_it_is_put_back(
    watching: Following, monkeypatch: pytest.MonkeyPatch
):
    place, name = watching.place, f'"{NAMES.slot}"'
    monkeypatch.setattr(LOOKS, 0.0)
    function = f"FUNCTION {name}.tell()"
    raising = f"CREATE OR REPLACE {function} RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM 1 / 0; END'"
    for harm in (
        f"DROP EVENT TRIGGER {name}",
        f"DROP {function} CASCADE",
        f"ALTER EVENT TRIGGER {name} DISABLE",
        raising,
    ):
        place.execute(harm)
        for _ in range(2):
            watching.catch_up()
        assert count_triggers(place, NAMES) == 2
        undone = "ALTER TABLE other RENAME TO x;\nALTER TABLE x RENAME TO other"
        assert find_reasons(watching, undone) == ['other: table "other" was not there for a while'], harm
    emit = "FUNCTION pg_logical_emit_message(boolean, text, text)"
    more = ", boolean" if place.connection.info.server_version >= 170_000 else ""
    emit = emit.replace("text)", f"text{more})")
    place.execute("DROP ROLE IF EXISTS trigger_owner;\nCREATE ROLE trigger_owner")
    place.execute(f"GRANT ALL ON SCHEMA public TO trigger_owner;\nREVOKE EXECUTE ON {emit} FROM PUBLIC")
    try:
        place.execute("SET ROLE trigger_owner;\nCREATE TABLE broken (id int);\nDROP TABLE broken;\nRESET ROLE")
    finally:
        place.execute(f"RESET ROLE;\nGRANT EXECUTE ON {emit} TO PUBLIC")
        place.execute("DROP OWNED BY trigger_owner;\nDROP ROLE trigger_owner")
    assert find_reasons(watching, "SELECT 1") == []


def test_a_trigger_goes_with_the_last_source_that_asks_for_it_and_projects_have_their_own(watching: Following):
    place = watching.place
    settings = place.settings(replace(THING, source="elsewhere", has_trigger=True))
    second = Capture(replace(settings, project="another", database="second"), place.ledger, place.store)
    names = capture_names("another", "second")
    second.catch_up()
    second.close()
    assert count_triggers(place, NAMES) == count_triggers(place, names) == 2
    undone = UNDONE["swapped"][0]
    assert find_reasons(watching, undone) == UNDONE["swapped"][1], "one project's marks mean nothing to another"
    with connect_session(place.dsn) as session:
        remove_capture(session, names)
    assert count_triggers(place, NAMES) == 2 and count_triggers(place, names) == 0
    watching.close()
    watching.tables = (THING, OTHER, SALES, LINE)
    watching.catch_up()
    assert count_triggers(place, NAMES) == 0
    assert find_reasons(watching, undone) == []


def test_a_role_that_may_not_create_triggers_is_named_and_tables_are_looked_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(LOOKS, 0.0)
    role = "no_superuser"
    place.execute(CREATE)
    place.execute(f"""DROP ROLE IF EXISTS {role};
CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x';
GRANT CREATE ON DATABASE {place.connection.info.dbname} TO {role};
ALTER TABLE other OWNER TO {role}""")
    watched = replace(OTHER, has_trigger=True)
    following = Following(replace(place, dsn=make_conninfo(place.dsn, user=role, password="x")), tables=(watched,))
    try:
        following.catch_up()
        note = place.ledger.notes("unwatched:")["unwatched:other"]
        assert "may not create the event trigger" in note and "ALTER ROLE" in note
        assert place.captured(OTHER) == contents(place, OTHER) and not place.ledger.notes("quarantine:")
        place.execute(f"ALTER ROLE {role} SUPERUSER")
        following.catch_up()
        assert place.ledger.notes("unwatched:") == {} and count_triggers(place, NAMES) == 2
        place.execute(f"ALTER ROLE {role} NOSUPERUSER")
        following.catch_up()
        assert place.ledger.notes("unwatched:") == {}, "it is there"
    finally:
        following.close()
        place.execute(f"DROP SCHEMA IF EXISTS {NAMES.slot} CASCADE;\nREASSIGN OWNED BY {role} TO CURRENT_USER")
        place.execute(f"DROP OWNED BY {role};\nDROP ROLE {role}")


def test_what_the_trigger_writes_is_read_by_its_own_capture_alone(watching: Following):
    place = watching.place
    slot = "trigger_reader"
    place.connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    try:
        place.execute("CREATE TABLE more (id int)")
        query = (
            "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1',"
            " 'publication_names', %s, 'messages', 'true')"
        )
        with place.connection.cursor(binary=True) as cursor:
            found = [row[0] for row in cursor.execute(query, [slot, NAMES.tables])]
        assert len([one for one in found if f"{TOLD}{NAMES.slot}:".encode() in one]) == 1
    finally:
        place.connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])


@pytest.mark.parametrize(
    "said",
    [
        "{",
        "[]",
        "7",
        "null",
        '[{"source": "thing"}]',
        '[{"source": 1, "oid": "x"}]',
        '[{"oid": null}]',
        '["x"]',
        "[" * 100_000,
        '[{"source": "thing", "oid": 1e999}]',
    ],
)
def test_what_anybody_writes_into_the_log_does_not_stop_the_capture(said: str):
    assert read_told(f"{TOLD}{NAMES.slot}:{said}".encode(), NAMES) == {}


def test_a_mark_that_is_no_text_does_not_stop_the_capture():
    assert read_told(f"{TOLD}{NAMES.slot}:".encode() + b"\xff\x00", NAMES) == {}
