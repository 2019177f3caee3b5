"""What `doctor` says about a database: whether it answers, how far its clock is off, how much log it keeps for us."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.connect.postgres.checkup import Checkup, check_up
from headrace.connect.postgres.ddl_trigger import try_trigger
from headrace.connect.postgres.facts import Hindrance
from headrace.connect.postgres.sessions import connect_session, database_errors
from headrace.connect.postgres.slots import CaptureNames
from headrace.model.amounts import format_bytes, format_seconds
from headrace.model.errors import ConnectError, Problem
from headrace.run.source_port import Looked

MOST_KEPT = 1e9
MOST_SKEW_S = 1.0


def look_at_database(database: str, address: str, names: CaptureNames, watched: bool = False) -> Iterator[Looked]:
    """`watched` is whether a source asks for an event trigger."""
    try:
        found = check_up(address, names.slot)
        hindrance = _try_trigger(address, names) if watched else None
    except ConnectError as error:
        yield Looked(database, "does not answer", Problem(f"{database}: {error.message}", None, error.hint))
        return
    yield Looked(database, f"{found.version}, answers in {format_seconds(round(found.round_trip_s, 4))}")
    yield _look_at_clock(database, found)
    if found.slot is not None:
        yield _look_at_slot(database, found)
    elif found.waits_for is not None:
        problem = Problem(f"{database}: {found.waits_for.message}", None, found.waits_for.hint)
        yield Looked(database, "has no slot yet", problem)
    if hindrance is not None:
        yield Looked(database, "no event trigger", Problem(f"{database}: {hindrance.what}", None, hindrance.hint))


def _try_trigger(address: str, names: CaptureNames) -> Hindrance | None:
    with connect_session(address) as session, database_errors(address):
        return try_trigger(session, names)


def _look_at_clock(database: str, found: Checkup) -> Looked:
    skew = abs(found.ahead_s)
    which = "ahead of" if found.ahead_s > 0 else "behind"
    seen = f"clock within {format_seconds(round(max(skew, found.round_trip_s / 2), 3))} of ours"
    if skew <= MOST_SKEW_S + found.round_trip_s:
        return Looked(database, seen)
    apart = format_seconds(round(skew, 1))
    what = (
        f"the clock of {database} is {apart} {which} ours: lags are still right, "
        "but the database writes its own time into rows, which matters for views that compare it with now()"
    )
    return Looked(
        database, f"clock {apart} {which} ours", Problem(what, None, "synchronise the clocks of both machines with NTP")
    )


def _look_at_slot(database: str, found: Checkup) -> Looked:
    slot = found.slot
    assert slot is not None
    seen = f"slot {slot.slot} keeps {format_bytes(slot.kept_bytes)} of log"
    drop = f"SELECT pg_drop_replication_slot('{slot.slot}');"
    if slot.lost:
        what = f"{database} discarded log that Headrace had not read: the next `headrace up` reads its sources again"
        return Looked(database, seen, Problem(what, None, "raise max_slot_wal_keep_size there"))
    if slot.kept_bytes > MOST_KEPT:
        hint = f"`headrace up` reads it; if you no longer need the project: {drop}"
        what = f"{database} keeps {format_bytes(slot.kept_bytes)} of log for Headrace on its disk"
        return Looked(database, seen, Problem(what, None, hint))
    return Looked(database, seen)
