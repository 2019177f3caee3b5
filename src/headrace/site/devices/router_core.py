"""What the router does with each message, and when: all of it but the connection to the broker.

    message -> new? -> forwarded to its takers (`run/devices/routing.py`)
                    -> committed (`router_intake.py`) -> acknowledged -> inboxes of sources

What is to be sent is gathered until somebody takes it. Times are seconds of a clock that nobody sets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headrace.connect.mqtt.broker_log import BrokerRefusal, Violation
from headrace.connect.mqtt.client import Arrived
from headrace.connect.mqtt.router_store import RouterStore
from headrace.model.cloud_messages import (
    CONTROL_KIND,
    PARTS,
    RATES,
    RESULT_KIND,
    STREAM_KIND,
    TABLE,
    TOOK,
    DeviceTook,
    write_counts,
    write_device_took,
)
from headrace.model.device_messages import (
    CLOUD,
    LARGEST_BODY,
    NO_MORE,
    Sent,
    Taken,
    Topic,
    cloud_topic,
    down_topic,
    read_document,
    read_gone,
    read_hello,
    read_sent,
    read_took,
    read_topic,
    write_acks,
    write_taken,
)
from headrace.model.errors import WireError
from headrace.run.devices.connections import Connections
from headrace.run.devices.counting import MessageCounts, RefusedWhy, packet_bytes
from headrace.run.devices.retained import RetainedMessages
from headrace.run.devices.routed_tables import RoutedTables
from headrace.run.devices.routing import History, Routing
from headrace.site.devices.router_intake import RESULTS, RouterIntake
from headrace.site.devices.router_settings import RouterFile

MOST_WAITING = 200_000
"""Rows that wait for the inboxes before nothing more is taken: devices keep it, and send it again.

No device may have more rows waiting than there is room left for others: one that floods gets half of it, two get a
third each. So there is always room for a device that sends little.
"""
MOST_TOPICS = 200_000
ACK_S, ACK_MESSAGES = 2.0, 5
"""Rows of streams are acknowledged after so long, or so many messages of a device; results at once."""
HISTORY_ROWS, HISTORIES_AT_ONCE = 500, 20
"""Rows of a history in one message, and such messages before others get their turn."""
PARTS_AT_ONCE = 10
"""Parts of large tables before others get their turn."""
VOID_S = 10.0
"""How often a device that says that it knows nothing, or lacks rows, is told all again."""
LARGEST_DOWN = 200_000
"""Bytes of one message to a device, unless a single row is larger."""
LATEST_QOS, KEEP_QOS = 0, 1
"""The newest row is sent again to whoever comes back. Rows that all count wait at the broker meanwhile."""
FORGET_AFTER_S = 600.0
"""How long rows of a `keep` stream stay after they are over, so that they count again if a clock was wrong a little."""
FORGOTTEN_AT_ONCE = 10_000
DOCUMENT = "document"
KINDS = {"s": STREAM_KIND, "r": RESULT_KIND}
REFUSED = {
    Violation.PUBLISH: RefusedWhy.PUBLISH,
    Violation.SUBSCRIBE: RefusedWhy.SUBSCRIBE,
    Violation.SIGN_IN: RefusedWhy.SIGN_IN,
}


class RouterMessage(NamedTuple):
    topic: str
    body: bytes
    qos: int


class RouterCore:
    """Used by one thread. Begins with what the store knows."""

    def __init__(self, settings: RouterFile, store: RouterStore) -> None:
        self.counts = MessageCounts()
        self.retained = RetainedMessages()
        self.intake = RouterIntake(settings, store, self.counts)
        self._project, self._store = settings.project, store
        self._is_first = store.is_new
        self._routing = Routing()
        self._tables, self._table_numbers = RoutedTables(), dict[str, int]()
        self._documents: dict[str, int] = {}
        self._running: dict[str, int] = {}
        self._members: dict[str, tuple[str, ...]] = {}
        self._topics: dict[str, Topic] = {}
        self._seen: set[str] = set()
        self._acks: dict[str, dict[str, int]] = {}
        self._acks_due: dict[str, tuple[float, int]] = {}
        self._took: dict[str, int] = {}
        self._tooks: list[DeviceTook] = []
        self._tooks_after: deque[tuple[int, DeviceTook]] = deque()
        self._tooks_held: dict[str, DeviceTook] = {}
        self._connections = Connections()
        self._void_s: dict[str, float] = {}
        self._lacks_s: dict[str, float] = {}
        self._lacking: dict[str, float] = {}
        self._histories: deque[tuple[str, History]] = deque()
        self._sent_after: dict[tuple[str, str, str], int] = {}
        self._out: list[RouterMessage] = []
        newest = {key: read_sent(body)[-1] for key, body in store.newest().items()}
        kept = {key: read_sent(body)[-1] for key, body in store.newest_kept().items()}
        sent = {(taker, (device, stream)): seq for (taker, device, stream), seq in store.sent().items()}
        self._routing.load({**newest, **kept}, kept, sent)

    def use(self, settings: RouterFile) -> None:
        self.intake.use(settings)

    def use_members(self, groups: Mapping[str, Iterable[str]]) -> None:
        """Who the devices are, by group: nobody else is listened to."""
        members: dict[str, tuple[str, ...]] = {}
        for group, devices in groups.items():
            for device in devices:
                members[device] = (*members.get(device, ()), group)
        self._members = members

    def begin_connection(self, now_s: float) -> None:
        """What was on its way before is lost, in both directions."""
        if not self._is_first:
            self.intake.numbers.doubt(now_s)
        self._is_first = False
        self._seen.clear()
        self.retained.begin_connection()
        self._routing.renew_all(now_s)

    def note_refusals(self, refusals: Iterable[tuple[BrokerRefusal, str | None]]) -> None:
        """What the broker refused, and to which device, if that is known."""
        for refusal, device in refusals:
            self.counts.refuse(REFUSED[refusal.what], device)

    # Messages

    def handle(self, message: Arrived, now_s: float) -> None:
        """Never fails for what somebody else has sent: that is refused, and counted."""
        topic = self._find_topic(message.topic)
        if topic is None:
            self.counts.refuse(RefusedWhy.UNKNOWN_TOPIC, None)
            return
        device, size = topic.device, packet_bytes(message.topic, len(message.body))
        try:
            if topic.direction == "up":
                self.counts.count_up(KINDS.get(topic.rest[0] if topic.rest else "", CONTROL_KIND), size)
                self._handle_up(topic, message.body, size, now_s)
            elif topic.direction == CLOUD:
                self._take_table(topic.rest, message.body, now_s)
            else:
                if not message.retained:
                    self.counts.count_down(CONTROL_KIND, 0, size)
                self._take_document(device, message.body, now_s)
        except (WireError, RecursionError):
            self.counts.refuse(RefusedWhy.MALFORMED, device or None)

    def _find_topic(self, text: str) -> Topic | None:
        found = self._topics.get(text)
        if found is None:
            try:
                found = read_topic(text)
            except (WireError, IndexError):
                return None
            if len(self._topics) >= MOST_TOPICS:  # a device may make up any number of them
                self._topics.clear()
            self._topics[text] = found
        return found

    def _handle_up(self, topic: Topic, body: bytes, size: int, now_s: float) -> None:
        device = topic.device
        if device not in self._members:
            self.counts.refuse(RefusedWhy.UNKNOWN_DEVICE, None)
            self._doubt(topic, now_s)
            return
        if len(body) > LARGEST_BODY:
            self.counts.refuse(RefusedWhy.TOO_LARGE, device)
            return
        if topic.rest not in (("gone",), ("hello",)) and self._routing.is_away(device):
            self._routing.note_back(device, now_s)
        match topic.rest:
            case ("s", stream):
                self._take_rows(device, stream, body, size, now_s)
            case ("r", template):
                self._take_results(device, template, body, size, now_s)
            case ("hello",):
                self._take_hello(device, body, now_s)
            case ("gone",):
                if self._connections.end(device, read_gone(body)):
                    self._routing.note_away(device)
            case ("took",):
                self._take_took(device, body, now_s)
            case _:
                self.counts.refuse(RefusedWhy.UNKNOWN_TOPIC, device)

    def _take_rows(self, device: str, name: str, body: bytes, size: int, now_s: float) -> None:
        stream = self.intake.find_stream(self._members[device], name)
        if not self._may_take(device, name, stream is not None, now_s):
            return
        assert stream is not None
        rows = self.intake.take_rows(device, name, stream, body, now_s)
        self.counts.count_rows(STREAM_KIND, device, name, len(rows), size)
        self._plan_ack(device, name, now_s, at_once=False)
        self._routing.accept(device, name, rows, stream.is_kept, now_s)

    def _take_results(self, device: str, template: str, body: bytes, size: int, now_s: float) -> None:
        results = self.intake.find_results(template)
        if results is None and self.intake.take_void(device, template, body, now_s):
            self._plan_ack(device, RESULTS + template, now_s, at_once=True)
            return
        if not self._may_take(device, RESULTS + template, results is not None, now_s):
            return
        assert results is not None
        rows = self.intake.take_results(device, template, results, body, now_s)
        self.counts.count_rows(RESULT_KIND, device, RESULTS + template, rows, size)
        self._plan_ack(device, RESULTS + template, now_s, at_once=True)
        self._release_took(device)

    def _may_take(self, device: str, name: str, is_known: bool, now_s: float) -> bool:
        """Whatever is not taken is not acknowledged, nor by a later one: the device keeps it, and sends it again."""
        room = MOST_WAITING - self.intake.rows_waiting
        if is_known and room > 0 and self.intake.count_waiting(device) < room:
            return True
        self.counts.refuse(RefusedWhy.FULL if is_known else RefusedWhy.UNKNOWN_STREAM, device)
        self.intake.numbers.doubt_stream(device, name, now_s)
        return False

    def _doubt(self, topic: Topic, now_s: float) -> None:
        """A message of rows or results is not taken now, but may be when it comes again."""
        match topic.rest:
            case ("s", name):
                self.intake.numbers.doubt_stream(topic.device, name, now_s)
            case ("r", template):
                self.intake.numbers.doubt_stream(topic.device, RESULTS + template, now_s)

    def _take_hello(self, device: str, body: bytes, now_s: float) -> None:
        hello = read_hello(body)
        self._note_plan(device, hello.plan, now_s)
        if hello.lacks:
            self._lacking[device] = max(now_s, self._lacks_s.get(device, -VOID_S) + VOID_S)
        # A hello that was said before, and delivered again, must not hide that the device has connected since.
        is_another = self._connections.is_another(device, hello.connection)
        if not self._connections.begin(device, hello.connection):
            return
        has_no_memory = hello.plan == 0
        if has_no_memory:
            self.intake.numbers.lose_memory(device)
            # Whole histories go down then, and a device may say so as often as it likes.
            has_no_memory = now_s - self._void_s.get(device, -VOID_S) >= VOID_S
            if has_no_memory:
                self._void_s[device] = now_s
        if has_no_memory or is_another or device not in self._seen or self._routing.is_away(device):
            self._seen.add(device)
            self._routing.note_back(device, now_s, has_no_memory)

    def _take_took(self, device: str, body: bytes, now_s: float) -> None:
        """A device that tells the same again has connected anew: what was on its way to it may be lost."""
        took = read_took(body)
        self._note_plan(device, took.plan, now_s)
        if self._took.get(device) == took.plan:
            self._routing.note_back(device, now_s)
        self._took[device] = took.plan
        self._tooks_held[device] = DeviceTook(device, took)
        self._release_took(device)

    def _release_took(self, device: str) -> None:
        """Passes on what a device took once the results are here that it sent before: some may have been lost."""
        held = self._tooks_held.get(device)
        if held is None:
            return
        known = {name: seq for name, seq in held.took.results.items() if self.intake.find_results(name) is not None}
        if all(self.intake.numbers.last(device, RESULTS + name).seq >= seq for name, seq in known.items()):
            del self._tooks_held[device]
            self._tooks.append(held)

    def _note_plan(self, device: str, plan: int, now_s: float) -> None:
        """A device runs the document with this number: without it nobody knows what to send to the device."""
        self._running[device] = plan
        if plan > self._documents.get(device, 0):
            self.retained.note_missing((DOCUMENT, device), now_s)

    def _take_document(self, device: str, body: bytes, now_s: float) -> None:
        if not body:  # that is how a retained one is deleted
            self.retained.note_there((DOCUMENT, device))
            self._routing.set_takes(device, {}, now_s)
            return
        document = read_document(body)
        self._documents[device] = document.plan
        if document.plan >= self._running.get(device, 0):
            self.retained.note_there((DOCUMENT, device))
        self._routing.set_takes(device, {(one.device, one.stream): one.every_s for one in document.take}, now_s)
        for one in document.take:
            if one.device == CLOUD and one.stream not in self._table_numbers:
                self.retained.note_missing((TABLE, one.stream), now_s)

    def _take_table(self, rest: Sequence[str], body: bytes, now_s: float) -> None:
        match rest:
            case (kind, name) if kind == TABLE and body:
                sent = read_sent(body)[-1:]
                if sent and self._accept_table(name, sent[0], now_s):
                    self._tables.forget(name)
            case (kind, name, _) if kind == PARTS and body:
                whole = self._tables.take(name, body)
                if whole is not None:
                    self._accept_table(name, Sent(whole.seq, whole.at_ms, ()), now_s)  # its parts are sent instead
            case _:  # what we publish ourselves, and what is retained no more
                pass

    def _accept_table(self, name: str, sent: Sent, now_s: float) -> bool:
        """False for an earlier version: a table that goes in another way than before may be retained in both."""
        if sent.seq < self._table_numbers.get(name, 0):
            return False
        self._table_numbers[name] = sent.seq
        self.retained.note_there((TABLE, name))
        self._routing.accept(CLOUD, name, (sent,), False, now_s)
        return True

    # Acknowledgements

    def _plan_ack(self, device: str, name: str, now_s: float, at_once: bool) -> None:
        """Also for what came before: its acknowledgement may be lost."""
        last = self.intake.numbers.last(device, name).seq
        if last == 0:
            return
        self._acks.setdefault(device, {})[name] = last
        due_s, messages = self._acks_due.get(device, (now_s + ACK_S, 0))
        is_due = at_once or messages + 1 >= ACK_MESSAGES
        self._acks_due[device] = (now_s if is_due else due_s, messages + 1)

    def commit(self, now_s: float) -> None:
        """Makes everything durable that was taken, and acknowledges what is due. Raises `ConnectError`."""
        last = self.intake.commit()
        self._tooks_after.extend((last, told) for told in self._tooks)
        self._tooks = []
        for device in [device for device, (due_s, _) in self._acks_due.items() if due_s <= now_s]:
            del self._acks_due[device]
            body = write_acks(self._acks.pop(device))
            self._send(down_topic(self._project, device, "ack"), body, CONTROL_KIND, 0, 0)

    def is_commit_due(self, now_s: float) -> bool:
        acks = (due_s for due_s, _ in self._acks_due.values())
        return self.intake.is_flush_due or bool(self._tooks) or min(acks, default=now_s + 1) <= now_s

    def put(self) -> None:
        """Brings rows to the inboxes, and passes on what waited for that. Raises `ConnectError`."""
        done = self.intake.put()
        while self._tooks_after and self._tooks_after[0][0] <= done:
            _, told = self._tooks_after.popleft()
            self._out.append(RouterMessage(cloud_topic(self._project, TOOK), write_device_took(told), 1))

    def forget_old(self, keep_s: Mapping[str, float], now_ms: int) -> bool:
        """Forgets rows of streams that are too old for everybody, here and in the sources; False if there are more.
        `keep_s` is how long rows of each stream count. Raises `ConnectError`.
        """
        is_all = True
        for stream, kept_s in keep_s.items():
            before_ms = now_ms - round(1000 * (kept_s + FORGET_AFTER_S))
            is_all = self.intake.forget_old(stream, before_ms, FORGOTTEN_AT_ONCE) and is_all
        return is_all

    # What goes down

    def send_due(self, now_s: float) -> None:
        """Rows that are due for devices. Raises `ConnectError` if a history cannot be read."""
        due = [device for device, due_s in self._lacking.items() if due_s <= now_s]
        for device in due:
            if self._routing.is_away(device):
                continue  # until it is back
            del self._lacking[device]
            self._lacks_s[device] = now_s
            self._routing.note_back(device, now_s, has_no_memory=True)
        for delivery in self._routing.take_due(now_s):
            for one in filter(self._is_in_parts, delivery.rows):
                self._tables.plan(delivery.taker, one.stream)
            self._send_rows(delivery.taker, [one for one in delivery.rows if not self._is_in_parts(one)])
            self._histories.extend((delivery.taker, one) for one in delivery.history)
            waiting = {(one.device, one.stream) for taker, one in self._histories if taker == delivery.taker}
            for (device, stream), seq in delivery.sent:
                if (device, stream) in waiting:  # a crash before its end must not leave a gap
                    self._sent_after[delivery.taker, device, stream] = seq
                else:
                    self.intake.note_sent(delivery.taker, device, stream, seq)
        for _ in range(min(HISTORIES_AT_ONCE, len(self._histories))):
            self._send_history(*self._histories[0])
            self._histories.popleft()  # only now: a store that cannot be read is tried again
        for part in self._tables.take_due(PARTS_AT_ONCE):
            if self._routing.is_taken(part.taker, CLOUD, part.name):  # it gets all of them when it is back
                topic = down_topic(self._project, part.taker, "s")
                self._send(topic, part.body, STREAM_KIND, int(part.number == 0), LATEST_QOS)

    def _is_in_parts(self, taken: Taken) -> bool:
        return taken.device == CLOUD and self._tables.has(taken.stream, taken.sent.seq)

    def _send_history(self, taker: str, history: History) -> None:
        if self.intake.is_flush_due:
            self.intake.commit()
        found = self._store.history(history.device, history.stream, history.after, HISTORY_ROWS)
        rows = [Taken(history.device, history.stream, one) for _, body in found for one in read_sent(body)]
        if len(found) == HISTORY_ROWS:
            self._send_rows(taker, rows)
            self._histories.append((taker, History(history.device, history.stream, found[-1][0])))
            return
        self._send_rows(taker, [*rows, Taken(history.device, history.stream, NO_MORE)])
        sent = self._sent_after.pop((taker, history.device, history.stream), None)
        if sent is not None:
            self.intake.note_sent(taker, history.device, history.stream, sent)

    def _send_rows(self, taker: str, rows: Sequence[Taken]) -> None:
        if not rows:
            return
        body = write_taken(rows)
        if len(body) > LARGEST_DOWN and len(rows) > 1:
            half = len(rows) // 2
            self._send_rows(taker, rows[:half])
            self._send_rows(taker, rows[half:])
            return
        is_kept = any(self._routing.is_kept(one.device, one.stream) for one in rows)
        topic = down_topic(self._project, taker, "s")
        count = sum(one.sent != NO_MORE for one in rows)
        self._send(topic, body, STREAM_KIND, count, KEEP_QOS if is_kept else LATEST_QOS)

    def send_counts(self, at_ms: int) -> None:
        for counts in self.counts.tell(at_ms):
            self._out.append(RouterMessage(cloud_topic(self._project, RATES), write_counts(counts), 0))

    def _send(self, topic: str, body: bytes, kind: str, rows: int, qos: int) -> None:
        self._out.append(RouterMessage(topic, body, qos))
        self.counts.count_down(kind, rows, packet_bytes(topic, len(body), qos))

    def take_out(self) -> list[RouterMessage]:
        """What is to be sent, in order; it is taken to be on its way once it was returned."""
        found, self._out = self._out, []
        return found

    def keep_back(self, message: RouterMessage) -> None:
        """It could not be sent, and nobody else would know: it is tried again."""
        self._out.append(message)
