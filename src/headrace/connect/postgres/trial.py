"""Tests whether a database lets us capture its tables, by trying everything that a capture does and undoing it.

    publications   made and filled in a transaction that is rolled back
    slot           a temporary one, which goes with its session; not if ours is there already
    stream         a replication connection is opened; not if a capture streams now, which proves it
    marks          a message for the log, in a transaction that is rolled back
    tables         no rows are read, of the columns that a capture reads
    trigger        made in a transaction that is rolled back, if a source asks for it

No step waits for long: if another session holds a lock, the finding says that this was not tested. Each finding has the
SQL that fixes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import psycopg
from psycopg import pq

from headrace.connect.postgres.ddl_trigger import try_trigger
from headrace.connect.postgres.facts import Hindrance, TableFacts
from headrace.connect.postgres.inspect import ask_table, unreachable
from headrace.connect.postgres.publications import (
    ALL_CHANGES,
    INSERTIONS,
    explain_lock,
    find_covered,
    publish,
    say_covered,
)
from headrace.connect.postgres.readiness import find_unfit
from headrace.connect.postgres.reading import emit
from headrace.connect.postgres.reading_rights import find_unreadable
from headrace.connect.postgres.sessions import (
    POOLER,
    Connection,
    check_version,
    connect_replication,
    connect_session,
    reason,
)
from headrace.connect.postgres.slots import LOGICAL, CaptureNames, SqlTable, create_slot, free_a_slot, slot_state
from headrace.model.catalogue import PostgresTable, Source, SourceKind
from headrace.model.errors import ConnectError, Problem, Severity
from headrace.model.table_name import quote_name

ANSWER_WITHIN_S = 10
SLOT_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class _Trial:
    """One database. `sources` are those that change."""

    address: str
    names: CaptureNames
    session: Connection
    sources: tuple[Source, ...]
    tables: dict[str, TableFacts]


def try_capture(address: str, names: CaptureNames, sources: Sequence[Source]) -> Iterator[Problem]:
    """All that keeps a capture from working now. Sources whose tables are not there are passed over."""
    try:
        with connect_session(address) as session:
            check_version(session.info.server_version)
            session.execute(f"SET statement_timeout = '{ANSWER_WITHIN_S}s'".encode())
            for source in sources:
                yield from _try_reading(session, source)
            watched = next((source for source in sources if source.has_trigger), None)
            if watched is not None and (found := try_trigger(session, names)) is not None:
                yield _finding(watched, found)
            captured = tuple(source for source in sources if not source.static)
            if captured:
                trial = _Trial(address, names, session, captured, _ask_tables(session, captured))
                yield from _try_server(trial)
    except psycopg.errors.LockNotAvailable:
        what = "a table is locked by another session, so not everything that a capture needs was tested"
        yield Problem(what, sources[0].declared_at, "try again when the lock is released", Severity.WARNING)
    except ConnectError as error:
        yield unreachable(error.message, error.hint, sources)
    except psycopg.Error as error:
        yield unreachable(f"the database stopped answering: {reason(error, address)}", None, sources)


def _ask_tables(session: Connection, sources: Sequence[Source]) -> dict[str, TableFacts]:
    asked = ((source.name, ask_table(session, _table_of(source), count=False)) for source in sources)
    # What is no table that can be captured was told by `inspect_sources`.
    return {name: facts for name, facts in asked if facts is not None and find_unfit(facts.form) is None}


def _table_of(source: Source) -> str:
    assert isinstance(source.origin, PostgresTable)
    return source.origin.table


def _try_reading(session: Connection, source: Source) -> Iterator[Problem]:
    facts = ask_table(session, _table_of(source), count=False)
    if facts is None:
        return
    present = {column.name for column in facts.columns}
    columns = [column.name for column in source.columns or () if column.name in present]
    table = SqlTable(facts.schema, facts.name)
    try:
        found = find_unreadable(session, columns, table)
    except psycopg.errors.LockNotAvailable:
        locked = explain_lock(session, table)
        what = f"not everything that a capture needs was tested: {locked.what}"
        yield Problem(what, source.declared_at, locked.hint, Severity.WARNING)
        return
    if found is not None:
        yield _finding(source, found)


def _try_server(trial: _Trial) -> Iterator[Problem]:
    """Each way to fail once: a role without the right to replicate can make no slot, and open no stream."""
    where, told = trial.sources[0], set[str]()
    for step in (_try_slot, _try_stream, _try_marks):
        found = step(trial)
        if found is not None and found.hint not in told:
            told.add(found.hint)
            yield _finding(where, found)
    covered = find_covered(trial.session, [SqlTable(one.schema, one.name) for one in trial.tables.values()])
    names = {name: SqlTable(one.schema, one.name) for name, one in trial.tables.items()}
    for source in trial.sources:
        if (table := names.get(source.name)) in covered and table is not None:
            yield _finding(source, say_covered(table, covered[table]))
    apart = {name: facts for name, facts in trial.tables.items() if names[name] not in covered}
    yield from _try_publishing(replace(trial, tables=apart))


def _try_slot(trial: _Trial) -> Hindrance | None:
    if slot_state(trial.session, trial.names.slot) is not None:
        return None
    row = trial.session.execute(_SLOTS).fetchone()
    assert row is not None
    if row["wal_level"] != "logical":
        return Hindrance(f"the database has wal_level {row['wal_level']}, not logical", LOGICAL)
    if row["used"] >= row["allowed"]:
        return Hindrance(f"all {row['allowed']} replication slots are in use", free_a_slot(trial.session))
    try:
        with connect_session(trial.address) as session:
            create_slot(session, f"headrace_trial_{os.getpid()}", temporary=True, within_s=SLOT_WITHIN_S)
    except ConnectError as error:
        return Hindrance(error.message, error.hint or "")
    return None


def _try_stream(trial: _Trial) -> Hindrance | None:
    state = slot_state(trial.session, trial.names.slot)
    if state is not None and state.active:
        return None
    try:
        with connect_replication(trial.address) as connection:
            answer = connection.pgconn.exec_(b"IDENTIFY_SYSTEM")
            if answer.status != pq.ExecStatus.TUPLES_OK:
                return Hindrance("the server at this address does not stream changes", POOLER)
    except ConnectError as error:
        return Hindrance(f"no connection for replication: {error.message}", error.hint or "")
    return None


def _try_marks(trial: _Trial) -> Hindrance | None:
    session = trial.session
    try:
        with session.transaction(force_rollback=True):
            emit(session, "trial")
    except psycopg.errors.InsufficientPrivilege:
        row = session.execute(_EMIT).fetchone()
        assert row is not None
        hint = f"GRANT EXECUTE ON FUNCTION {row['function']} TO {quote_name(row['role'])};"
        return Hindrance(f'role "{row["role"]}" may not write messages into the log', hint)
    except psycopg.errors.ReadOnlySqlTransaction:
        return None  # as for publications, which say so
    return None


def _try_publishing(trial: _Trial) -> Iterator[Problem]:
    with trial.session.transaction(force_rollback=True):
        for publication, appends, operations in (
            (trial.names.tables, False, ALL_CHANGES),
            (trial.names.streams, True, INSERTIONS),
        ):
            chosen = [one for one in trial.sources if (one.kind is SourceKind.STREAM) is appends]
            try:
                yield from _try_publication(trial, publication, chosen, operations)
            except ConnectError as error:
                yield _finding(trial.sources[0], Hindrance(error.message, error.hint or ""))
                return


def _try_publication(trial: _Trial, name: str, sources: Sequence[Source], operations: str) -> Iterator[Problem]:
    found = {one.name: SqlTable(facts.schema, facts.name) for one in sources if (facts := trial.tables.get(one.name))}
    wanted = dict.fromkeys(found.values(), frozenset[str]())
    refused = publish(trial.session, name, wanted, operations).refused
    for source in sources:
        if (table := found.get(source.name)) in refused and table is not None:
            yield _finding(source, refused[table])


def _finding(source: Source, found: Hindrance) -> Problem:
    return Problem(found.what, source.declared_at, found.hint)


_SLOTS = """
SELECT current_setting('wal_level') AS wal_level, current_setting('max_replication_slots')::int AS allowed,
       (SELECT count(*) FROM pg_replication_slots) AS used
"""
_EMIT = """
SELECT current_user::text AS role, 'pg_catalog.' || oid::regprocedure::text AS function FROM pg_proc
WHERE proname = 'pg_logical_emit_message' AND oid::regprocedure::text LIKE '%text,text%'
"""
