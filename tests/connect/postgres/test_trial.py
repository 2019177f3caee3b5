"""What a capture needs of a database is tried on a real server: every finding has SQL that mends it, and it does."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.connect.postgres.inspect import inspect_sources
from headrace.connect.postgres.look import look_at_database
from headrace.connect.postgres.slots import capture_names
from headrace.connect.postgres.trial import try_capture
from headrace.model.catalogue import PostgresTable, Source, SourceKind
from headrace.model.errors import Location, Problem, Severity

NAMES = capture_names("test", "main")
_numbers = itertools.count(1)


def source(table: str, **fields: object) -> Source:
    plain = Source(
        name=table,
        kind=SourceKind.TABLE,
        site="us",
        key=(),
        columns=None,
        rows=None,
        rate=None,
        static=False,
        parent_first=False,
        stays=None,
        time=None,
        retention_s=None,
        origin=PostgresTable("${DSN}", table),
        declared_at=Location("headrace.yml", 5, 3),
    )
    return dataclasses.replace(plain, **fields)  # type: ignore[arg-type]


def told(problems: Iterator[Problem]) -> list[tuple[str, str | None]]:
    return [(problem.message, problem.hint) for problem in problems]


@dataclass(frozen=True)
class Weak:
    """A role that owns table `own` in schema public, and may do all that a capture needs; and its database's owner."""

    role: str
    dsn: str
    execute: Callable[[str], None]

    def findings(self, *tables: str) -> list[tuple[str, str | None]]:
        sources = [source(table) for table in tables or ("own",)]
        found, problems = inspect_sources({one.name: one for one in sources}, {"${DSN}": self.dsn})
        assert problems == ()
        return told(try_capture(self.dsn, NAMES, list(found.values())))


@pytest.fixture
def weak(postgres_dsn: str) -> Iterator[Weak]:
    role = f"weak{next(_numbers)}"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:

        def execute(statements: str) -> None:
            for statement in filter(str.strip, statements.split(";")):
                connection.execute(statement.encode())

        database = connection.info.dbname
        execute(f"""CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x'; GRANT CREATE ON DATABASE {database} TO {role};
            CREATE TABLE own (id int PRIMARY KEY, n int); ALTER TABLE own OWNER TO {role};
            CREATE TABLE other (id int PRIMARY KEY); GRANT SELECT ON other TO {role};
            INSERT INTO own VALUES (1, 1)""")
        dsn = make_conninfo(postgres_dsn, user=role, password="x")
        yield Weak(role, dsn, execute)
        execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}; DROP ROLE {role}")


def test_nothing_is_said_of_a_role_that_may_do_all_and_nothing_is_left_behind(weak: Weak, postgres_dsn: str) -> None:
    assert weak.findings() == []
    with psycopg.connect(postgres_dsn) as connection:
        left = connection.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE '%trial%'"
        ).fetchall()
        assert left + connection.execute("SELECT pubname FROM pg_publication").fetchall() == []


def test_a_role_that_may_not_create_event_triggers_is_told_if_a_source_asks_for_one(
    weak: Weak, postgres_dsn: str
) -> None:
    def find() -> list[tuple[str, str | None]]:
        found, _ = inspect_sources({"own": source("own", has_trigger=True)}, {"${DSN}": weak.dsn})
        looked = [one.problem for one in look_at_database("d", weak.dsn, NAMES, watched=True) if one.problem]
        said = told(try_capture(weak.dsn, NAMES, list(found.values())))
        assert [(one.message.removeprefix("d: "), one.hint) for one in looked] == said
        return said

    what = f'role "{weak.role}" may not create the event trigger that `watch: trigger` asks for'
    assert find() == [(what, f"ALTER ROLE {weak.role} SUPERUSER;   or leave out `watch: trigger`")]
    weak.execute(f"ALTER ROLE {weak.role} SUPERUSER")
    assert find() == []
    with psycopg.connect(postgres_dsn) as connection:
        assert connection.execute("SELECT FROM pg_event_trigger").fetchall() == [], "it was only tried"


@pytest.mark.parametrize(
    ("spoil", "what", "hint"),
    [
        (
            "REVOKE CREATE ON DATABASE {database} FROM {role}",
            'role "{role}" may not create publications in database "{database}"',
            "GRANT CREATE ON DATABASE {database} TO {role};",
        ),
        ("ALTER ROLE {role} NOREPLICATION", 'role "{role}" may not replicate', "ALTER ROLE {role} REPLICATION;"),
        (
            "ALTER TABLE own OWNER TO postgres; GRANT SELECT ON own TO {role}",
            'public.own belongs to role "postgres": role "{role}" may not publish its changes',
            "ALTER TABLE public.own OWNER TO {role};",
        ),
        (
            "CREATE ROLE {role}_owner; GRANT CREATE ON SCHEMA public TO {role}_owner;"
            "ALTER TABLE own OWNER TO {role}_owner; GRANT SELECT ON own TO {role}",
            'public.own belongs to role "{role}_owner": role "{role}" may not publish its changes',
            "GRANT {role}_owner TO {role};",
        ),
        (
            "REVOKE SELECT ON own FROM {role}",
            'role "{role}" may not read public.own',
            "GRANT SELECT ON public.own TO {role};",
        ),
        (
            "ALTER TABLE own ENABLE ROW LEVEL SECURITY; ALTER TABLE own FORCE ROW LEVEL SECURITY",
            'row-level security hides rows of public.own from role "{role}"',
            "ALTER ROLE {role} BYPASSRLS;",
        ),
        (
            "REVOKE EXECUTE ON FUNCTION pg_logical_emit_message({emit}) FROM PUBLIC",
            'role "{role}" may not write messages into the log',
            "GRANT EXECUTE ON FUNCTION pg_catalog.pg_logical_emit_message({emit}) TO {role};",
        ),
        (
            "CREATE PUBLICATION {publication}",
            'publication "{publication}" belongs to role "postgres" and lacks public.own',
            "ALTER PUBLICATION {publication} ADD TABLE public.own;",
        ),
    ],
)
def test_each_missing_right_is_found_by_trying_and_its_sql_mends_it(
    weak: Weak, postgres_dsn: str, spoil: str, what: str, hint: str
) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        row = connection.execute(
            "SELECT pg_get_function_identity_arguments(oid) FROM pg_proc"
            " WHERE proname = 'pg_logical_emit_message' AND proargtypes[1] = proargtypes[2]"
        ).fetchone()
    assert row is not None
    arguments = [one.split(" ")[-1] for one in row[0].split(", ")]
    names = {
        "role": weak.role,
        "database": conninfo_to_dict(postgres_dsn)["dbname"],
        "publication": NAMES.tables,
        "emit": ",".join(arguments),
    }
    weak.execute(spoil.format(**names))
    ((found, mend),) = weak.findings()
    assert found == what.format(**names)
    assert mend is not None and mend.startswith(hint.format(**names))
    weak.execute(mend.partition(";")[0])
    assert weak.findings() == []
    if "_owner" in spoil:
        weak.execute(f"REASSIGN OWNED BY {weak.role}_owner TO CURRENT_USER; DROP OWNED BY {weak.role}_owner")
        weak.execute(f"DROP ROLE {weak.role}_owner")


def test_a_schema_that_may_not_be_used_is_named_once_with_all_that_it_takes(weak: Weak) -> None:
    weak.execute(
        f"CREATE SCHEMA shut; CREATE TABLE shut.t (id int PRIMARY KEY); ALTER TABLE shut.t OWNER TO {weak.role}"
    )
    found = weak.findings("shut.t")
    assert (
        f'role "{weak.role}" may not read shut.t',
        f"GRANT USAGE ON SCHEMA shut TO {weak.role}; GRANT SELECT ON shut.t TO {weak.role};",
    ) in found
    for _, hint in found:
        weak.execute(hint or "")
    assert weak.findings("shut.t") == []


def test_one_table_of_somebody_else_is_a_finding_about_that_table_alone(weak: Weak) -> None:
    ((what, _),) = weak.findings("own", "other")
    assert what.startswith("public.other belongs to")


def test_a_table_that_somebody_has_locked_is_said_to_be_untried(weak: Weak, postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as other:
        other.execute("LOCK TABLE own IN ACCESS EXCLUSIVE MODE")
        found = list(try_capture(weak.dsn, NAMES, [source("own", static=True)]))
    assert [problem.severity for problem in found] == [Severity.WARNING]
    assert "not everything that a capture needs was tested" in found[0].message


def test_an_open_transaction_that_keeps_slots_from_being_made_is_named(weak: Weak, postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as other:
        other.execute("INSERT INTO own VALUES (2, 2)")
        ((what, hint),) = weak.findings()
        assert f"process {other.info.backend_pid} (user " in what and "in a transaction open" in what
        assert hint == f"end its transaction, or: SELECT pg_terminate_backend({other.info.backend_pid});"


def test_a_server_without_logical_decoding_or_free_slots_is_told_so() -> None:
    for settings, expected in (
        (
            {"wal_level": "replica"},
            (
                "the database has wal_level replica, not logical",
                "ALTER SYSTEM SET wal_level = 'logical';   then restart PostgreSQL",
            ),
        ),
        (
            {"max_replication_slots": "1"},
            (
                "all 1 replication slots are in use",
                "SELECT pg_drop_replication_slot('old');   if nobody needs it, "
                "or ALTER SYSTEM SET max_replication_slots = 6;   then restart PostgreSQL",
            ),
        ),
    ):
        with (
            tempfile.TemporaryDirectory(prefix="headrace-tests-") as folder,
            EmbeddedPostgres(Path(folder), settings) as server,
            psycopg.connect(server.dsn(), autocommit=True) as connection,
        ):
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            connection.execute("SELECT pg_create_physical_replication_slot('old')")
            assert told(try_capture(server.dsn(), NAMES, [source("t")])) == [expected]


def test_wal_senders_that_are_all_in_use_are_named_with_how_many_there_are() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-tests-") as folder,
        EmbeddedPostgres(Path(folder), {"max_wal_senders": "1"}) as server,
        psycopg.connect(server.dsn(), autocommit=True) as connection,
        psycopg.connect(make_conninfo(server.dsn(), replication="database"), autocommit=True),
    ):
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        ((what, hint),) = told(try_capture(server.dsn(), NAMES, [source("t")]))
        assert "max_wal_senders" in what
        assert hint == "ALTER SYSTEM SET max_wal_senders = 6;   then restart PostgreSQL"


def test_a_pooler_in_front_is_named_as_such(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with simulated_pooler(postgres_dsn, refused="replication") as address:
        ((what, hint),) = told(try_capture(address, NAMES, [source("t")]))
        assert "unsupported startup parameter: replication" in what
        assert hint is not None and "PgBouncer" in hint and "the PostgreSQL server itself" in hint
    with simulated_pooler(postgres_dsn, refused="options") as address:
        _, (problem,) = inspect_sources({"t": source("t")}, {"${DSN}": address})
        assert problem.hint == hint


@contextmanager
def simulated_pooler(dsn: str, refused: str) -> Iterator[str]:
    """A relay that refuses a startup parameter in PgBouncer's words. It stands in for PgBouncer, and is none."""
    given = conninfo_to_dict(dsn)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = str(given["host"]), int(str(given["port"]))
        threading.Thread(target=_accept, args=(listening, server, refused.encode()), daemon=True).start()
        yield make_conninfo(
            dsn, host="127.0.0.1", port=listening.getsockname()[1], sslmode="disable", gssencmode="disable"
        )


def _accept(listening: socket.socket, server: tuple[str, int], refused: bytes) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        (length,) = struct.unpack("!I", client.recv(4, socket.MSG_WAITALL))
        startup = client.recv(length - 4, socket.MSG_WAITALL)
        if refused in startup.split(b"\0"):
            text = b"SFATAL\0C08P01\0Munsupported startup parameter: " + refused + b"\0\0"
            client.sendall(b"E" + struct.pack("!I", len(text) + 4) + text)
            client.close()
            continue
        behind = socket.create_connection(server)
        behind.sendall(struct.pack("!I", length) + startup)
        for one, other in ((client, behind), (behind, client)):
            threading.Thread(target=_relay, args=(one, other), daemon=True).start()


def _relay(one: socket.socket, other: socket.socket) -> None:
    """Whoever ends first ends both."""
    with contextlib.suppress(OSError), one, other:
        while some := one.recv(1 << 16):
            other.sendall(some)
        other.shutdown(socket.SHUT_RDWR)
