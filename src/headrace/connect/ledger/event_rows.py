"""Events as rows of the ledger: numbered in the order of commits, read forwards or backwards, and forgotten in time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headrace.connect.ledger import statements as sql
from headrace.connect.ledger.database import LedgerDatabase, Row, Transaction
from headrace.model.event_wire import EventsAsked, NumberedEvent, read_event, write_event
from headrace.model.events import Event

ROW_BYTES = 50
"""What a row takes beside its text: its number, time and kind, and its place in indexes."""
ROWS_AT_ONCE = 1000
FORGOTTEN_AT_ONCE = 5000
END = 2**62
"""After every number."""


def add_events(transaction: Transaction, events: Sequence[Event]) -> None:
    """The last that a transaction does: from here on, others that tell of something wait for it."""
    if not events:
        return
    bodies = [write_event(event) for event in events]
    sizes = [0, 0]
    for event, body in zip(events, bodies, strict=True):
        sizes[event.is_routine] += len(body) + ROW_BYTES
    transaction.change(sql.COUNT_EVENTS, [(len(events), sizes[0])])
    transaction.change(sql.COUNT_ROUTINE, [(sizes[1],)] if sizes[1] else ())
    ((last,),) = transaction.rows(sql.READ_LAST_EVENT)
    first = int(last or 0) - len(events) + 1
    rows: list[Row] = [
        (first + place, event.at, event.kind, int(event.is_routine), body)
        for place, (event, body) in enumerate(zip(events, bodies, strict=True))
    ]
    transaction.change(sql.ADD_EVENT, rows)


def read_events(database: LedgerDatabase, asked: EventsAsked) -> tuple[NumberedEvent, ...]:
    """A text that names a contract may mean something else: what the database finds is looked at once more.

    One transaction for each thousand rows: a reader who asks for many keeps no other thread waiting.
    """
    statement = sql.read_events(asked.latest, asked.routine, asked.contract is not None)
    pattern = () if asked.contract is None else (_pattern(asked.contract),)
    found: list[NumberedEvent] = []
    at = END if asked.latest else asked.after
    while len(found) < asked.limit:
        with database.read() as transaction:
            rows = transaction.rows(statement, [at, *pattern, ROWS_AT_ONCE])
        events = [
            NumberedEvent(int(n or 0), read_event(int(t or 0), str(kind), str(body))) for n, t, kind, body in rows
        ]
        found += [one for one in events if one.number > asked.after and _is_about(one.event, asked.contract)]
        if len(rows) < ROWS_AT_ONCE or (asked.latest and events[-1].number <= asked.after):
            break
        at = events[-1].number
    first = found[: asked.limit]
    return tuple(reversed(first) if asked.latest else first)


def _is_about(event: Event, contract: str | None) -> bool:
    return contract is None or contract in event.about.get("contracts", ())


def _pattern(contract: str) -> str:
    """A pattern for LIKE: texts that hold the name, as JSON writes it."""
    written = json.dumps(contract)
    for sign in "!%_":
        written = written.replace(sign, f"!{sign}")
    return f"%{written}%"


def forget_events(transaction: Transaction, before: int, limits: tuple[int, int]) -> int:
    """Forgets the oldest events, routine or not, while they are too old or take too many bytes."""
    kept = {int(routine or 0): int(size or 0) for routine, size in transaction.rows(sql.READ_EVENT_BYTES)}
    forgotten = 0
    for routine, limit in enumerate(limits):
        gone, size = 0, 0
        for n, at, length in transaction.rows(sql.READ_OLDEST_EVENTS[routine], [FORGOTTEN_AT_ONCE]):
            if int(at or 0) >= before and kept[routine] - size <= limit:
                break
            gone, size = int(n or 0), size + int(length or 0) + ROW_BYTES
        if gone:
            forgotten += transaction.change(sql.FORGET_EVENTS, [(routine, gone)])
            count = sql.COUNT_ROUTINE if routine else sql.COUNT_EVENTS
            transaction.change(count, [(-size,) if routine else (0, -size)])
    return forgotten
