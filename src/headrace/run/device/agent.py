"""A device without its wires: rows and messages go in, results for its app and messages to send come out.

    publish     a row of its own: numbered, put in a queue if the document says so, given to the engine
    receive     a message of the cloud: a document, rows of partners, acknowledgements
    tick        time passes
    outgoing    what to send now, if there is a connection

Everything that an event changes is kept in one step of the store, before anybody is told. A latest-row stream has a new
row only when that is another one: a row that equals the one before is dropped where it is made. So it is with a stream
that is derived from others, whose value is the list of a view's rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headrace.meaning.evaluate import Python
from headrace.model.device_messages import (
    CLOUD,
    LARGEST_WHOLE,
    MOST_DERIVED_ROWS,
    NO_MORE,
    Document,
    Hello,
    Sent,
    StreamShape,
    TakeStream,
    Took,
    down_topic,
    is_signed,
    read_acks,
    read_document,
    read_taken,
    read_topic,
    up_topic,
    write_gone,
    write_hello,
    write_sent,
    write_took,
)
from headrace.model.errors import WireError
from headrace.model.types import Row
from headrace.model.wire_values import Json
from headrace.run.device.engine import Change, DeviceEngine
from headrace.run.device.fitting import read_json
from headrace.run.device.queues import Queues
from headrace.run.device.rates import StreamRates
from headrace.run.device.sampler import Sampler, rates_of
from headrace.run.device.store import DeviceStore, Pair
from headrace.run.device.table_parts import TableParts

HELLO_EVERY_MS = 300_000
HELLO_AT_MOST_EVERY_MS = 30_000
FIRST_HELLO_AGAIN_MS = 5_000
"""A device without a document was perhaps not heard: it says hello again, ever less often."""
ADVANCE_EVERY_MS = 1_000
FORGET_EVERY_MS = 60_000
LACKS_AGAIN_MS = 30_000
"""How often a device says that it lacks rows, until it has them all."""
HISTORY_WITHIN_MS = 10_000
"""How long a device waits for the end of a history (`NO_MORE`), of which it has the beginning."""
LARGEST_ROW = LARGEST_WHOLE
"""Bytes of a row of a stream."""
MOST_EARLY = 10_000
DEEPEST_VIEWS = 10
"""Views that read each other's results."""

NO_SHAPE = StreamShape(())
OutMessage = tuple[str, bytes]
Subscription = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a device is. Its token signs documents; `project` says where its topics are."""

    device: str
    project: str
    token: str = field(repr=False)


class Result(NamedTuple):
    """A row of a template's pair came (`weight` 1) or went (-1); values by the names in `columns`."""

    template: str
    pair: Pair
    weight: int
    columns: tuple[str, ...]
    row: Row
    at_ms: int


@dataclass(slots=True)
class _TakingDocument:
    """A document of which the cloud is not told yet that it runs: first the device has what it takes of others, of
    histories at least what came until `until_ms`. What is in the queues then (`marks`) is sent before it is told.
    """

    until_ms: int = 0
    marks: Mapping[str, int] | None = None


class Agent:
    """Not for several threads at once. Times are ms since 1970."""

    def __init__(
        self, identity: Identity, store: DeviceStore, functions: Python | None = None, now_ms: int = 0
    ) -> None:
        self.told: list[str] = []
        """What somebody should know, to be shown and cleared."""
        self.results: list[Result] = []
        """For the app, to be handed over and cleared."""
        self._identity, self._store, self._functions = identity, store, dict(functions or {})
        self._engine = DeviceEngine(identity.device, self._functions)
        self._document = Document(0)
        self._samplers: dict[str, Sampler] = {}
        self._rates = StreamRates()
        self._latest: dict[str, Sent] = {}
        self._unsaid: set[str] = set()
        """Derived streams whose value nobody knows yet, not even that it is empty; or not any more."""
        self._whole: set[tuple[str, str]] = set()
        """Streams of others of which the cloud said that there is no more."""
        self._parts = TableParts()
        self._is_connected = False
        self._connection = 0
        self._lacks = False
        self._taking: _TakingDocument | None = None
        self._refused: Mapping[str, str] = {}
        self._hello_ms: int | None = None
        self._hello_every_ms = FIRST_HELLO_AGAIN_MS
        self._advanced_ms = self._forgot_ms = now_ms
        self._start(now_ms)

    def _start(self, now_ms: int) -> None:
        kept = self._store.read()
        self._queues = Queues(self._store, kept.queues)
        if kept.document is None:
            return
        document = read_document(kept.document)
        self._engine.restore(document.streams, kept.held, kept.results)
        own = (one for one in kept.held if one[1] == self._identity.device)
        self._latest = {stream: sent for stream, _, sent in own}
        with self._step():
            self._take(document, now_ms, document)
        self._note_lacking()  # it may have ended while it lacked some

    @property
    def plan(self) -> int:
        """The number of the document that runs, 0 if none does."""
        return self._document.plan

    @property
    def waiting_bytes(self) -> int:
        return self._store.waiting_bytes

    @property
    def is_idle(self) -> bool:
        """Whether all that was to be sent has been acknowledged."""
        is_taking = self._taking is not None and self._knows_others
        return not self._store.waiting_bytes and not is_taking and not self._store.has_early()

    @property
    def refused(self) -> Mapping[str, str]:
        """Templates that do not run here, and why."""
        return dict(self._engine.refused)

    def close(self) -> None:
        self._store.close()

    @contextmanager
    def _step(self) -> Iterator[None]:
        """All of an event or nothing. After an error of the store an agent is of no more use: its engine is ahead."""
        before = len(self.results)
        try:
            with self._store.step():
                yield
                self._queues.keep()
        except BaseException:
            del self.results[before:]
            raise
        self.told += self._engine.left_out
        self._engine.left_out.clear()
        if self._engine.refused != self._refused:
            news = {name: why for name, why in self._engine.refused.items() if self._refused.get(name) != why}
            self.told += [f'"{name}" does not run here: {why}' for name, why in sorted(news.items())]
            self._refused = dict(self._engine.refused)
            self._taking = self._taking or _TakingDocument()

    # What comes in

    def publish(self, stream: str, row: Json, at_ms: int | None, now_ms: int) -> None:
        """A row by the names of its columns. Raises `WireError` if it does not fit: then nothing has changed."""
        at_ms = now_ms if at_ms is None else at_ms
        with self._step():
            if self._document.streams:
                self._publish(stream, row, at_ms, now_ms)
            else:
                self._put_early(stream, row, at_ms)

    def receive(self, topic: str, body: bytes, now_ms: int) -> None:
        """A message of the cloud. One that is not what it should be is told of and dropped."""
        try:
            rest = read_topic(topic).rest
            with self._step():
                if rest == ("plan",) and body:
                    self._receive_document(body, now_ms)
                elif rest == ("s",):
                    self._receive_rows(body, now_ms)
                elif rest == ("ack",):
                    for queue, seq in read_acks(body).items():
                        self._queues.acknowledge(queue, seq)
        except WireError as error:
            self.told.append(f"a message at {topic} is dropped: {error}")

    def tick(self, now_ms: int) -> None:
        """Call this every tenth of a second or so."""
        waiting = [name for name, sampler in self._samplers.items() if sampler.waiting is not None]
        is_time = not 0 <= now_ms - self._advanced_ms < ADVANCE_EVERY_MS and self._engine.reads_time
        if not waiting and not is_time:
            return
        with self._step():
            for stream in waiting:
                self._put_sent(stream, self._samplers[stream].due(now_ms), now_ms)
            if is_time:
                self._advance(now_ms)

    def begin_connection(self, now_ms: int) -> OutMessage:
        """Call this before connecting. Returns the last will of this connection."""
        self._connection = max(now_ms, self._connection + 1)
        return self.last_will()

    def connect(self, is_known: bool = True) -> None:
        """There is a connection: hello, what waits, and which document runs are told anew.

        `is_known` is whether the broker has kept the session: otherwise it has lost what it was to keep for it.
        """
        self._is_connected, self._hello_ms = True, None
        if not is_known:
            self._note_lacking()
        self._queues.reconnect()
        if self._document.plan:
            self._taking = _TakingDocument(self._taking.until_ms if self._taking else 0)

    def disconnect(self) -> None:
        self._is_connected = False

    def note_subscribed(self) -> None:
        """Other topics are read from now on: what was sent before the broker knew that may be lost, and is asked for.

        A subscription that goes from QoS 0 to 1 may have neither for a moment.
        """
        self._note_lacking()
        if self._lacks:
            self._hello_ms = None

    def _note_lacking(self) -> None:
        """Rows of others that all count may be lost: it is said until histories of all of them have come to an end,
        since a hello may be lost as well, and whoever answers it may be killed.
        """
        self._lacks = self._takes_kept
        self._whole = {key for key in self._whole if not self._is_kept(key[0])}

    # What goes out

    def outgoing(self, now_ms: int) -> list[OutMessage]:
        """Messages for the broker, in order; they count as sent once they were returned."""
        if not self._is_connected:
            return []
        found: list[OutMessage] = []
        if self._is_hello_due(now_ms):
            is_first = self._hello_ms is None
            self._hello_ms = now_ms
            self._hello_every_ms = self._choose_pause(is_first)
            found.append((self._topic("hello"), write_hello(self._make_hello(now_ms, is_first))))
        for message in self._queues.choose(self._document.streams, now_ms):
            found.append((self._topic(*message.topic), message.body.encode()))
        if self._is_taken(now_ms):
            found.append((self._topic("took"), write_took(self._make_took())))
            self._taking = None
        return found

    def subscriptions(self) -> tuple[Subscription, ...]:
        """Topics to read, with their QoS. A broker keeps a queue for each of QoS 1, which costs it more than all else.

        So only rows that all count have one. Documents are retained; what is newest, and acknowledgements, come again
        after a connection.
        """
        qos = {"plan": 0, "ack": 0, "s": int(self._takes_kept)}
        return tuple((down_topic(self._identity.project, self._identity.device, rest), qos[rest]) for rest in qos)

    def last_will(self) -> OutMessage:
        return self._topic("gone"), write_gone(self._connection)

    def _topic(self, *rest: str) -> str:
        return up_topic(self._identity.project, self._identity.device, *rest)

    def _is_hello_due(self, now_ms: int) -> bool:
        if self._hello_ms is None or not 0 <= now_ms - self._hello_ms < self._hello_every_ms:
            return True
        if now_ms - self._hello_ms >= LACKS_AGAIN_MS and (self._lacks or not self._knows_others):
            return True
        return now_ms - self._hello_ms >= HELLO_AT_MOST_EVERY_MS and self._rates.has_moved(now_ms)

    def _choose_pause(self, is_first: bool) -> int:
        if self._document.plan:
            return HELLO_EVERY_MS
        return FIRST_HELLO_AGAIN_MS if is_first else min(HELLO_EVERY_MS, 2 * self._hello_every_ms)

    def _make_hello(self, now_ms: int, is_first: bool) -> Hello:
        """A device is sent the newest rows of others after the first hello of a connection: without them at the next
        one, it lacks them.
        """
        rates = self._rates.tell(now_ms)
        streams = tuple(sorted({*self._document.streams, *rates}))
        free = max(0, self._document.buffer_bytes - self._store.waiting_bytes)
        functions, dropped = tuple(sorted(self._functions)), self._queues.dropped
        lacks = self._lacks or not (is_first or self._knows_others)
        return Hello(self._document.plan, streams, functions, rates, free, dropped, self._connection, lacks)

    def _is_taken(self, now_ms: int) -> bool:
        taking = self._taking
        if taking is None or not self._document.plan:
            return False
        if taking.marks is None:
            is_late = not taking.until_ms - HISTORY_WITHIN_MS <= now_ms < taking.until_ms
            if not self._knows_others or not (is_late or all(map(self._is_whole, self._document.take))):
                return False
            taking.marks = self._queues.ends()
        return self._queues.are_sent(taking.marks)

    @property
    def _knows_others(self) -> bool:
        """Whether something was heard of everything that it takes, if only that there is nothing."""
        return all(self._engine.known(one.stream, one.device) for one in self._document.take)

    def _is_whole(self, take: TakeStream) -> bool:
        return take.device == CLOUD or not self._is_kept(take.stream) or (take.stream, take.device) in self._whole

    def _make_took(self) -> Took:
        assert self._taking is not None and self._taking.marks is not None
        return Took(self._document.plan, self._engine.refused, self._queues.find_results(self._taking.marks))

    # Documents

    def _receive_document(self, body: bytes, now_ms: int) -> None:
        document = read_document(body)
        if not is_signed(document, self._identity.token):
            raise WireError("the document is not signed for this device, which goes on with the one it has")
        if document.plan < self._document.plan:
            raise WireError(f"document {document.plan} is older than {self._document.plan}, which runs")
        if document == self._document:
            return
        self._store.keep_document(body)
        self._take(document, now_ms, self._document)
        for stream, text, at_ms in self._store.take_early() if document.streams else ():
            try:
                self._publish(stream, json.loads(text), at_ms, now_ms)
            except WireError as error:
                self.told.append(f'a row of "{stream}" is dropped: {error}')

    def _take(self, document: Document, now_ms: int, previous: Document) -> None:
        """`previous` is the document that ran until now, if only in another process."""
        taken = {(one.stream, one.device) for one in document.take}
        for one in previous.take:
            if (one.stream, one.device) not in taken:
                self._store.forget(one.stream, one.device)
        for stream, _ in sorted(previous.derived.items() - document.derived.items()):
            self._latest.pop(stream, None)
            self._queues.give_up(stream)
            self._store.forget(stream, self._identity.device)
            self._engine.forget(stream, self._identity.device)
        self._unsaid = set(document.derived.keys() - self._latest.keys())
        self._whole &= taken
        self._parts.keep_only({stream for stream, device in taken if device == CLOUD})
        known = {template: dict(rows) for template, rows in self._engine.results.items()}
        self._document, before, after = document, _reporting(previous), _reporting(document)
        self._samplers = {name: one for name, one in self._samplers.items() if name in rates_of(document.send)}
        changes = self._engine.take(document, now_ms)
        self._keep(changes, now_ms, {*previous.derived, *document.derived})
        self._queues.report((one for one in changes if one.template in before & after), now_ms)
        for template in sorted(before - after):
            self._queues.report(_each_of(template, known.get(template, {}), -1), now_ms)
        for template in sorted(after - before):
            self._queues.report(_each_of(template, self._engine.results.get(template, {}), 1), now_ms)
        self._send_more(now_ms, rates_of(previous.send).keys())
        self._pass_on({one.template for one in changes}, now_ms)
        self._taking = _TakingDocument(now_ms + HISTORY_WITHIN_MS)

    def _send_more(self, now_ms: int, before: Collection[str]) -> None:
        """Sends the latest row, or all that are kept, of streams that were not sent `before`."""
        for stream, every_s in rates_of(self._document.send).items():
            if stream not in before:
                self._renumber(stream, now_ms)
            shape = self._document.streams.get(stream, NO_SHAPE)
            if stream in self._samplers:
                self._samplers[stream].every_s = every_s
                continue
            self._samplers[stream] = sampler = Sampler(every_s, only_changes=not shape.keep_s)
            sent_before = self._queues.end(stream)
            for sent in self._engine.held(stream, self._identity.device):
                if sent.seq > sent_before:
                    chosen = sent if shape.keep_s else sampler.offer(sent, now_ms)
                    self._put_sent(stream, chosen, now_ms)
                elif sampler.last is None:
                    sampler.last = sent.rows

    def _renumber(self, stream: str, now_ms: int) -> None:
        """Gives the latest row a new number: the cloud may have forgotten that it was sent before."""
        latest = self._latest.get(stream)
        if latest is None or self._is_kept(stream) or latest.seq > self._queues.end(stream):
            return
        self._latest[stream] = sent = replace(latest, seq=self._queues.number(stream, now_ms))
        self._store.hold(stream, self._identity.device, (sent,), only_these=True)
        self._settle(self._engine.put(stream, self._identity.device, (sent,), now_ms), now_ms)

    # Rows

    def _put_early(self, stream: str, row: Json, at_ms: int) -> None:
        """Has a row wait until a document says what streams look like."""
        try:
            text = json.dumps(row, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise WireError(f"a row is what JSON can say: {error}") from error
        _check_size(len(text))
        if self._store.put_early(stream, text, at_ms, MOST_EARLY):
            self.told.append(f"no document came yet, and only the last {MOST_EARLY:,} rows wait for one")

    def _publish(self, stream: str, row: Json, at_ms: int, now_ms: int) -> None:
        shape = self._document.streams.get(stream)
        if shape is None:
            known = ", ".join(sorted(self._document.streams))
            raise WireError(f'there is no stream "{stream}"; there are {known}')
        if stream in self._document.derived:
            raise WireError(f'"{stream}" is computed here: publish what it is made of')
        values = read_json(row, shape.columns)
        _check_size(len(write_sent((Sent(0, at_ms, (values,)),))))
        latest = self._latest.get(stream)
        if shape.keep_s or latest is None or latest.rows != (values,):
            self._add(stream, at_ms, (values,), now_ms)

    def _add(self, stream: str, at_ms: int, rows: tuple[Row, ...], now_ms: int, depth: int = 0) -> None:
        """A new value of a stream of its own."""
        sent, is_kept = Sent(self._queues.number(stream, now_ms), at_ms, rows), self._is_kept(stream)
        self._rates.add(stream, now_ms)
        self._latest[stream] = sent
        self._store.hold(stream, self._identity.device, (sent,), only_these=not is_kept)
        sampler = self._samplers.get(stream)
        if sampler is not None:
            self._put_sent(stream, sampler.offer(sent, now_ms), now_ms)
        self._settle(self._engine.put(stream, self._identity.device, (sent,), now_ms), now_ms, depth)

    def _put_sent(self, stream: str, sent: Sent | None, now_ms: int) -> None:
        if sent is not None:
            self._queues.put(stream, sent.seq, write_sent((sent,))[1:-1], now_ms, alone=not self._is_kept(stream))
            self._make_room(now_ms)

    def _make_room(self, now_ms: int) -> None:
        streams = self._document.streams
        self.told += self._queues.make_room(self._document.buffer_bytes, streams, now_ms)

    @property
    def _takes_kept(self) -> bool:
        """Whether it takes rows of others that all count."""
        return any(self._is_kept(one.stream) for one in self._document.take)

    def _is_kept(self, stream: str) -> bool:
        return self._document.streams.get(stream, NO_SHAPE).keep_s > 0

    def _receive_rows(self, body: bytes, now_ms: int) -> None:
        """Rows of others, as far as the document asks for them. A value without rows says that there are none yet."""
        takes = {(one.stream, one.device) for one in self._document.take}
        found: dict[tuple[str, str], list[Sent]] = {}
        for one in read_taken(body):
            if (one.stream, one.device) in takes:
                whole = one.sent if one.parts == 1 else self._parts.add(one)
                if whole is not None:
                    found.setdefault((one.stream, one.device), []).append(whole)
        for (stream, device), sent in found.items():
            is_kept = self._is_kept(stream) and device != CLOUD
            if NO_MORE in sent:
                self._whole.add((stream, device))
                self._lacks = self._lacks and not all(map(self._is_whole, self._document.take))
            newer = [max(sent, key=lambda one: one.seq)]
            if is_kept or newer[0].seq > self._engine.newest(stream, device):
                self._store.hold(stream, device, sent if is_kept else newer, only_these=not is_kept)
            self._settle(self._engine.put(stream, device, sent, now_ms), now_ms)

    def _advance(self, now_ms: int) -> None:
        self._advanced_ms = now_ms
        self._settle(self._engine.advance(now_ms), now_ms)
        if not 0 <= now_ms - self._forgot_ms < FORGET_EVERY_MS:
            self._forgot_ms = now_ms
            for stream, shape in self._document.streams.items():
                if shape.keep_s:
                    self._store.forget_older(stream, now_ms - int(shape.keep_s * 1000))

    # Results

    def _settle(self, changes: list[Change], now_ms: int, depth: int = 0) -> None:
        if changes:
            reporting = _reporting(self._document)
            self._keep(changes, now_ms, self._document.derived)
            self._queues.report((one for one in changes if one.template in reporting), now_ms)
            self._make_room(now_ms)
        if changes or self._unsaid:
            self._pass_on({one.template for one in changes}, now_ms, depth)

    def _keep(self, changes: Iterable[Change], now_ms: int, derived: Collection[str]) -> None:
        """Rows of derived streams are no results: the app is not told of them."""
        for one in changes:
            count = one.copy + (one.weight > 0)
            self._store.keep_result(one.template, one.pair, one.row, count)
            if one.template not in derived:
                columns = self._engine.columns(one.template)
                self.results.append(Result(one.template, one.pair, one.weight, columns, one.row, now_ms))

    def _pass_on(self, templates: set[str], now_ms: int, depth: int = 0) -> None:
        """Results that are a derived stream: its value is all rows.

        It has none before what it is made of is there: an empty one would take back what the cloud knows from before.
        """
        for stream in sorted((templates | self._unsaid) & self._document.derived.keys()):
            if depth >= DEEPEST_VIEWS:
                self.told.append(f'"{stream}" and others read each other; changes go no further')
                return
            self._unsaid.add(stream)
            if stream in self._engine.refused or not self._engine.is_ready(stream):
                continue
            results = self._engine.results.get(stream, {})
            # In one order, so that equal values are equal.
            rows = tuple(sorted((row for (_, row), count in results.items() for _ in range(count)), key=repr))
            too_much = _find_excess(rows)
            if too_much is not None:
                self._engine.refused[stream] = too_much
                continue
            self._unsaid.discard(stream)
            latest = self._latest.get(stream)
            if latest is None or latest.rows != rows:
                self._add(stream, now_ms, rows, now_ms, depth + 1)


def _check_size(size: int) -> None:
    if size > LARGEST_ROW:
        raise WireError(f"a row of {size:,} bytes is too large; {LARGEST_ROW:,} are taken")


def _find_excess(rows: tuple[Row, ...]) -> str | None:
    """Why rows are too many for one value of a stream, if they are."""
    if len(rows) > MOST_DERIVED_ROWS:
        return f"it has {len(rows):,} rows; {MOST_DERIVED_ROWS:,} are sent"
    size = len(write_sent((Sent(0, 0, rows),)))
    return f"its rows have {size:,} bytes; {LARGEST_ROW:,} are sent" if size > LARGEST_ROW else None


def _reporting(document: Document) -> frozenset[str]:
    return frozenset(run.template for run in document.run if run.report)


def _each_of(template: str, results: Mapping[tuple[Pair, Row], int], weight: int) -> Iterator[Change]:
    for (pair, row), count in results.items():
        for copy in range(count) if weight > 0 else range(count - 1, -1, -1):
            yield Change(template, pair, weight, copy, row)
