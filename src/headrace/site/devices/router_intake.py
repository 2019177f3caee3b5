"""The durable side of the router: rows of devices on their way to the inboxes of sources, exactly once in effect.

    take     a message whose rows are new, by their numbers            in memory
    commit   messages and numbers together, in one transaction         from now on they may be acknowledged
    put      rows to the inboxes, in order                             then the messages are deleted

Ended anywhere in between, the next router goes on from the last commit: devices send again what was not acknowledged,
and rows that were put already are put again, which changes nothing.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from headrace.connect.mqtt.router_store import Flush, RouterStore, WaitingMessage
from headrace.model.device_messages import Reported, Sent, read_reported, read_sent, write_sent
from headrace.model.errors import WireError
from headrace.model.types import Row
from headrace.run.device.fitting import fit_id
from headrace.run.devices.counting import MessageCounts, RefusedWhy
from headrace.run.devices.intake import (
    WrittenChange,
    derived_rows,
    read_derived,
    report_row,
    row_of_key,
    stream_row,
    write_derived,
    write_key,
)
from headrace.run.devices.numbers import LastNumber, RowNumbers
from headrace.site.devices.router_inboxes import RouterInboxes
from headrace.site.devices.router_settings import RoutedSource, RouterFile

log = logging.getLogger("headrace.router")

RESULTS, GONE = "r/", "gone/"
"""What names of queues begin with that are results, and results that count no more."""


class RoutedStream(NamedTuple):
    """A value of a derived stream is any number of rows."""

    source: RoutedSource
    is_kept: bool
    group: str
    is_derived: bool = False


class RoutedResults(NamedTuple):
    source: RoutedSource
    sides: int


class RouterIntake:
    """Used by one thread. Begins with what the store knows."""

    def __init__(self, settings: RouterFile, store: RouterStore, counts: MessageCounts) -> None:
        self.numbers = RowNumbers(store.numbers())
        self._store, self._counts = store, counts
        self._inboxes = RouterInboxes()
        self._flush = Flush()
        self._changes: list[tuple[RoutedSource, str, WrittenChange]] = []
        self._changes_of: Counter[str] = Counter()
        self._row_counts = {key: len(read_sent(body)[-1].rows) for key, body in store.newest().items()}
        """Rows of the newest value of each stream: those of a derived one that the next value has not are deleted."""
        self.use(settings)
        self._unreadable = 0
        for message in store.waiting():
            try:
                for source, change in self._read_again(message):
                    self._inboxes.add(source, message.device, change)
            except (ValueError, WireError) as error:  # it was taken by an earlier release, which read more
                log.error("a message of %s at %s is set aside: %s", message.device, message.stream, error)
                self._unreadable += 1
            self._inboxes.reach(message.id)
        self._put_up_to = self._deleted_up_to = self._last = 0

    def use(self, settings: RouterFile) -> None:
        """Goes over to other settings; rows that wait go to the sources that they were taken for."""
        self._streams = {
            (one.devices, one.stream): RoutedStream(one.source.read(), one.keep_s is not None, one.devices, one.derived)
            for one in settings.streams
        }
        self._templates = {one.template: RoutedResults(one.source.read(), one.sides) for one in settings.templates}

    @property
    def rows_waiting(self) -> int:
        return self._inboxes.rows + len(self._changes)

    def count_waiting(self, device: str) -> int:
        """Rows of one device that wait for the inboxes."""
        return self._inboxes.count_rows(device) + self._changes_of[device]

    @property
    def set_aside(self) -> int:
        """Rows and messages that were acknowledged and cannot be passed on."""
        return self._inboxes.set_aside + self._unreadable

    @property
    def is_flush_due(self) -> bool:
        return not self._flush.is_empty or self._deleted_up_to < self._put_up_to

    def find_stream(self, groups: Iterable[str], stream: str) -> RoutedStream | None:
        """The stream of a device that is in these groups."""
        return next((found for group in groups if (found := self._streams.get((group, stream))) is not None), None)

    def find_results(self, template: str) -> RoutedResults | None:
        return self._templates.get(template)

    # Taking

    def take_rows(self, device: str, name: str, stream: RoutedStream, body: bytes, now_s: float) -> list[Sent]:
        """Rows of a message that are new, and fit. Raises `WireError`."""
        sent, before = read_sent(body), self.numbers.last(device, name)
        if stream.is_kept:
            new, begins = self.numbers.take_next(device, name, sent, now_s)
        else:
            new, begins = self.numbers.take_newest(device, name, sent)
        if not new:
            return []
        rows_before = self._row_counts.get((device, name), 0)
        fitting = self._fit_sent(device, new, stream, rows_before)
        rows = [one for one, _ in fitting]
        if stream.is_derived:
            body = write_derived(rows_before, rows)
            self._row_counts[device, name] = len(rows[-1].rows) if rows else rows_before
        self._note(WaitingMessage(device, name, 0 if begins else before.seq, body, stream.group))
        self._add_changes(stream.source, device, (change for _, changes in fitting for change in changes))
        if stream.is_kept:
            for one in rows:
                self._flush.note_kept(device, name, one.seq, one.at_ms, write_sent((one,)))
        elif rows:
            self._flush.note_newest(device, name, write_sent(rows[-1:]))
        return rows

    def take_results(self, device: str, template: str, results: RoutedResults, body: bytes, now_s: float) -> int:
        """How many results of a message are new, and fit. Raises `WireError`."""
        name, reported = RESULTS + template, read_reported(body)
        before = self.numbers.last(device, name)
        new, begins = self.numbers.take_next(device, name, reported, now_s)
        if not new:
            return 0
        if begins:
            self._void_results(device, template, results)
        changes = self._fit_reported(device, new, results)
        self._note(WaitingMessage(device, name, 0 if begins else before.seq, body))
        for change in changes:
            self._flush.note_result(device, template, write_key(change.row, results.sides), not change.is_gone)
        self._add_changes(results.source, device, changes)
        return len(changes)

    def take_void(self, device: str, template: str, body: bytes, now_s: float) -> bool:
        """Takes results of a template that is gone, without effect: a device that was away would send them for ever.
        False if the device never reported any. Raises `WireError`.
        """
        name = RESULTS + template
        if self.numbers.last(device, name).seq == 0:
            return False
        new, _ = self.numbers.take_next(device, name, read_reported(body), now_s)
        if new:
            self._flush.note_number(device, name, self.numbers.last(device, name))
        return True

    def note_sent(self, taker: str, device: str, stream: str, seq: int) -> None:
        """A taker of a `keep` stream was sent its rows up to this number."""
        self._flush.note_sent(taker, device, stream, seq)

    def _note(self, message: WaitingMessage) -> None:
        self._flush.note_message(message, self.numbers.last(message.device, message.stream))

    def _add_changes(self, source: RoutedSource, device: str, changes: Iterable[WrittenChange]) -> None:
        before = len(self._changes)
        self._changes.extend((source, device, change) for change in changes)
        self._changes_of[device] += len(self._changes) - before

    def _void_results(self, device: str, template: str, results: RoutedResults) -> None:
        """A device that lost its memory does not know what it reported, and will never take it back."""
        self.commit()  # so that the store knows all of it
        keys = self._store.reported(device, template)
        gone = WaitingMessage(device, GONE + template, 0, json.dumps(keys).encode())
        self._flush.note_message(gone, LastNumber())
        for key in keys:
            self._flush.note_result(device, template, key, False)
        self._add_changes(results.source, device, (row_of_key(key, results.source.columns) for key in keys))

    def _fit_sent(
        self, device: str, rows: Sequence[Sent], stream: RoutedStream, rows_before: int
    ) -> list[tuple[Sent, list[WrittenChange]]]:
        """Rows as they are written. The value before of a derived stream had `rows_before`."""
        found = []
        for one in rows:
            try:
                if stream.is_derived:
                    found.append((one, derived_rows(device, one, rows_before, stream.source.columns)))
                else:
                    found.append((one, [stream_row(device, one, stream.source.columns)]))
            except WireError:
                self._counts.refuse(RefusedWhy.MISFIT, device)
        return found

    def _fit_reported(self, device: str, rows: Sequence[Reported], results: RoutedResults) -> list[WrittenChange]:
        found = []
        for one in rows:
            if device not in one.pair:
                self._counts.refuse(RefusedWhy.FOREIGN_PAIR, device)
                continue
            try:
                found.append(report_row(device, one, results.sides, results.source.columns))
            except WireError:
                self._counts.refuse(RefusedWhy.MISFIT, device)
        return found

    def _read_again(self, message: WaitingMessage) -> Iterator[tuple[RoutedSource, WrittenChange]]:
        """Rows of a message that was committed before. What is gone from the settings meanwhile is dropped."""
        kind, _, template = message.stream.partition("/")
        results = self._templates.get(template)
        if kind + "/" == GONE:
            for key in json.loads(message.body) if results is not None else ():
                assert results is not None
                yield results.source, row_of_key(key, results.source.columns)
        elif kind + "/" == RESULTS and results is not None:
            reported = [one for one in read_reported(message.body) if one.seq > message.after]
            for change in self._fit_reported(message.device, sorted(reported, key=_seq), results):
                yield results.source, change
        else:
            yield from self._read_rows_again(message)

    def _read_rows_again(self, message: WaitingMessage) -> Iterator[tuple[RoutedSource, WrittenChange]]:
        stream = self._streams.get((message.group, message.stream))
        if stream is None:
            return
        rows_before, sent = 0, read_sent(message.body)
        if stream.is_derived:
            rows_before, sent = read_derived(sent)
        sent = tuple(one for one in sent if one.seq > message.after)
        for _, changes in self._fit_sent(message.device, sorted(sent, key=_seq), stream, rows_before):
            for change in changes:
                yield stream.source, change

    # Committing and putting

    def commit(self) -> int:
        """Has everything that was taken on disk when it returns; the number of the last message. Raises
        `ConnectError`: what was taken then waits for the next try, and is not acknowledged before.
        """
        if not self.is_flush_due:
            return self._last
        self._last = self._store.commit(self._flush, self._put_up_to)
        self._deleted_up_to, self._flush = self._put_up_to, Flush()
        for source, device, change in self._changes:
            self._inboxes.add(source, device, change)
        self._changes, self._changes_of = [], Counter()
        self._inboxes.reach(self._last)
        return self._last

    def forget_old(self, stream: str, before_ms: int, most: int) -> bool:
        """Forgets rows of a stream that are from before then, and deletes them from its sources; False if there are
        more. Ended anywhere, it is done again. Raises `ConnectError`.
        """
        old = self._store.old_rows(stream, before_ms, most)
        if not old:
            return True
        # Everything that was taken is in the inboxes before the deletions are, and is not written again after a crash.
        self.commit()
        self.put()
        self.commit()
        for source in self._find_kept_sources(stream):
            self._inboxes.delete(source, _make_deletes(old, source))
        self._store.forget_rows(stream, old)
        return len(old) < most

    def _find_kept_sources(self, stream: str) -> list[RoutedSource]:
        """Sources whose rows are deleted for their age. The key of a latest row does not say which row is meant."""
        named = (one for (_, name), one in self._streams.items() if name == stream and one.is_kept)
        return [one.source for one in named if one.source is not None]

    def put(self) -> int:
        """Brings what is committed to the inboxes; the number of the last message whose rows are there. Raises
        `ConnectError`. The messages are deleted with the next commit.
        """
        self._put_up_to = self._inboxes.put()
        return self._put_up_to


def _make_deletes(rows: Iterable[tuple[str, int]], source: RoutedSource) -> list[Row]:
    """Rows with these keys. Devices whose ids do not fit are of another group, which has a stream of the same name."""
    found = []
    for device, seq in rows:
        with suppress(WireError):
            found.append((fit_id(device, source.columns[0][1]), seq, *(None for _ in source.columns[2:])))
    return found


def _seq(row: Sent | Reported) -> int:
    return row.seq
