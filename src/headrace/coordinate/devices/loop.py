"""The placement loop: hears devices, reads rows, decides where pairs run, and tells devices. One thread.

    hears     `up/D/hello`, `up/D/gone`; of the router `cloud/took`, `cloud/rates`
    reads     tables of devices and pairs as they are captured
    decides   with every new row and device, and every period of 10 to 60 s (`placer.py`)
    acts      publishes documents, signed and retained; writes rows of `TEMPLATE/placement`; publishes tables

What it has to remember is elsewhere: where pairs run in the ledger, what devices do in their retained documents. Beside
that there is a small file with the highest number of a document, and who was seen when.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.connect.mqtt.client import Arrived, BrokerAccess, CloudClient
from headrace.connect.mqtt.users import PLACER
from headrace.coordinate.devices.device_troubles import UNCOMPUTED, find_absent, find_uncomputed
from headrace.coordinate.devices.followed_rows import FollowedPairs, FollowedTables
from headrace.coordinate.devices.kept import KeptGroup, KeptTemplate, KeptTemplates, find_templates
from headrace.coordinate.devices.memory import PlacementMemory
from headrace.coordinate.devices.placer import Placer, Redeployed
from headrace.coordinate.devices.table_messages import TableMessages, write_table
from headrace.coordinate.devices.waiting import CapturedFirst
from headrace.model.catalogue import Source
from headrace.model.cloud_messages import (
    RATES,
    RESULT_KIND,
    STREAM_KIND,
    TOOK,
    CountedMessages,
    DeviceTook,
    RouterCounts,
    read_counts,
    read_device_took,
)
from headrace.model.device_events import (
    DeviceForgotten,
    MovesDropped,
    PairsMoved,
    PairsRedeployed,
    ProgramRefused,
)
from headrace.model.device_messages import (
    CLOUD,
    MOST_DERIVED_ROWS,
    ROOT,
    Document,
    Sent,
    down_topic,
    quote_id,
    read_gone,
    read_hello,
    read_topic,
    sign,
    write_document,
)
from headrace.model.errors import ConnectError, HeadraceError, WireError
from headrace.model.source_clock import clock_of
from headrace.model.template_names import DEVICE
from headrace.model.types import Row, Value
from headrace.observe.device_rates import DeviceRates
from headrace.plan.place.handover import TemplatePair
from headrace.run.device.fitting import fit_id
from headrace.run.devices.connections import Connections
from headrace.run.ports import Ledger, Store
from headrace.site.devices.registry import find_tokens, registry_version, set_members
from headrace.site.devices.tokens import find_device_key, make_client_id
from headrace.site.folder import Folder
from headrace.site.journal import Journal
from headrace.site.running import Running
from headrace.site.sources.written import write_rows
from headrace.site.troubles import ABSENT, PLACEMENT, Troubles

log = logging.getLogger("headrace.devices")

STEP_S = 0.1
LOOK_EVERY_S = 1.0
SHORTEST_PERIOD_S, PERIOD_S = 10.0, 60.0
DECIDING = 0.02
"""Share of the time that may be spent on deciding: few pairs are looked at more often than every minute."""
SOON_S, DECIDING_SOON = 0.5, 0.2
"""How long the first of several changes waits for others before pairs are placed, and the share of the time that this
may take while many come one after another.
"""
DOCUMENTS_EVERY_S = 0.2
AGAIN_AFTER_S = 1.0
SILENT_S = 20.0
AWAY_S = 5.0
LARGE_TABLE_S = 60.0
"""How often a table is published that goes in parts: all who take it are sent all of it each time."""


_Committed = tuple[TemplatePair, ...]


@dataclass(slots=True)
class DeviceLoop:
    """`running` is what runs now; `access` where its broker is, None while there is none. `period_s` is for tests."""

    folder: Folder
    ledger: Ledger
    store: Store
    running: Callable[[], Running | None]
    access: Callable[[], BrokerAccess | None]
    journal: Journal
    troubles: Troubles
    clock: Callable[[], int]
    period_s: float = PERIOD_S
    project: str = ""
    kept: KeptTemplates = field(default_factory=lambda: KeptTemplates({}, {}, {}))
    told: dict[str, Redeployed] = field(default_factory=dict)
    """What was decided last, by group."""
    counts: RouterCounts = field(default_factory=lambda: RouterCounts(0))
    """What the router said last."""
    placer: Placer | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Held while anything here changes, and by whoever reads it: for milliseconds, never while waiting."""
    memory: PlacementMemory = field(init=False)
    _made_of: Running | None = None
    _client: CloudClient | None = None
    _used: BrokerAccess | None = None
    _rows: dict[str, FollowedPairs] = field(default_factory=dict)
    _tables: FollowedTables = field(init=False)
    _connections: Connections = field(default_factory=Connections)
    _answers: CapturedFirst[DeviceTook] = field(default_factory=CapturedFirst)
    _commits: CapturedFirst[_Committed] = field(default_factory=CapturedFirst)
    _unwritten: list[tuple[KeptTemplate, dict[TemplatePair, str]]] = field(default_factory=list)
    _tokens: dict[str, str] = field(default_factory=dict)
    _registry: tuple[int, int] | None = None
    _is_registry_due: bool = False
    _refused: dict[tuple[str, str], str] = field(default_factory=dict)
    _look_s: float = 0.0
    _decide_s: float | None = None
    _took_s: float = 0.0
    _period_s: float = 0.0
    _published_s: float = 0.0
    _heard_router_s: float = 0.0
    _later_s: dict[str, float] = field(default_factory=dict)
    """Large tables, and when they may be published again."""

    def __post_init__(self) -> None:
        self.memory = PlacementMemory(self.folder)
        self._tables = FollowedTables(self.ledger, self.store)

    # The thread

    def run(self, end: threading.Event) -> None:
        """Goes on until it is told to end. Whatever fails is a trouble, and is tried again."""
        try:
            while not end.is_set():
                try:
                    if not self.step():
                        end.wait(AGAIN_AFTER_S)
                    self.troubles.clear(f"{PLACEMENT}loop")
                except Exception as error:
                    self._report(error)
                    end.wait(AGAIN_AFTER_S)
        finally:
            self._disconnect()
            if self.placer is not None:
                self.memory.save(self.placer.presence, self._now_s())

    def _report(self, error: Exception) -> None:
        if not isinstance(error, HeadraceError | OSError):
            log.exception("placing pairs failed")
        line = next(iter(str(error).splitlines()), "") or type(error).__name__
        hint = error.hint if isinstance(error, ConnectError) else None
        what = f"where pairs of templates run is not decided any more: {line}"
        mend = "results stay right, and pairs stay where they run; see .headrace/service.log. The service keeps trying"
        self.troubles.report(f"{PLACEMENT}loop", what, hint or mend)

    def step(self) -> bool:
        """One round; False if there is nothing to do."""
        running = self.running()
        if running is not self._made_of:
            with self.turn:
                self._use(running)
        access = self.access() if self.kept.templates else None
        if access is None or self.placer is None:
            self._disconnect()
            return False
        client = self._connect(access)
        arrived = client.take(wait_s=STEP_S)
        with self.turn:
            for message in arrived:
                self._hear(message)
            now_s = time.monotonic()
            if now_s >= self._look_s:
                self._look_s = now_s + LOOK_EVERY_S
                self._look(now_s)
            self._decide(now_s)
            self._act(client, now_s)
        return True

    def _use(self, running: Running | None) -> None:
        """Goes over to another plan. What stays keeps its place."""
        kept = KeptTemplates({}, {}, {}) if running is None else find_templates(running.plan, running.program)
        if self.placer is None and kept.templates:
            self.placer = self._make_placer(kept)
        if self.placer is not None:
            self.placer.rates.declare(_find_rates(kept), _find_made_of(kept))
            gone = [name for name in self._rows if name not in kept.templates]
            self.placer.use_terms(kept.document_terms, kept.prices)
            for name in gone:
                del self._rows[name]
        for name, one in kept.templates.items():
            self._rows.setdefault(name, FollowedPairs(name)).use(one)
        self.kept, self._made_of = kept, running
        self.project = self.project if running is None else running.plan.catalogue.project
        self._tables.use(kept)
        self._decide_soon()

    def _make_placer(self, kept: KeptTemplates) -> Placer:
        placer = Placer(kept.document_terms, self.memory.read_presence(), DeviceRates(_find_rates(kept)))
        placer.handover.begin_after(self.memory.read_number())
        self._period_s = time.monotonic() + min(self.period_s, SHORTEST_PERIOD_S)
        return placer

    # The broker

    def _connect(self, access: BrokerAccess) -> CloudClient:
        if self._client is None or access != self._used:
            self._disconnect()
            root = f"{ROOT}/{quote_id(self.project)}"
            # Few, since NATS limits what all subscriptions of a session may hold unacknowledged.
            topics = (f"{root}/up/+/hello", f"{root}/up/+/gone", f"{root}/{CLOUD}/+")
            name = make_client_id(find_device_key(self.folder.root), self.project, PLACER)
            self._client = CloudClient(access, name, topics)
            self._client.start()
            self._used, self._heard_router_s = access, time.monotonic()
            self._tables.publish_again()
            self._later_s.clear()
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.stop()
        self._client = self._used = None

    def _hear(self, message: Arrived) -> None:
        """A message that is not what it should be is left out: the router counts those of devices."""
        try:
            topic = read_topic(message.topic)
            if topic.direction == CLOUD:
                self._hear_router(topic.rest, message.body)
            elif topic.rest == ("hello",) and not message.retained:
                self._hear_hello(topic.device, message.body)
            elif topic.rest == ("gone",) and not message.retained:
                self._hear_gone(topic.device, read_gone(message.body))
        except (WireError, KeyError, TypeError, ValueError) as error:
            log.info("a message at %s is left out: %s", message.topic, error)

    def _hear_hello(self, device: str, body: bytes) -> None:
        hello, placer = read_hello(body), self._placer
        placer.rates.hear(device, hello.rates)
        if not placer.handover.begin_after_told(hello.plan):
            log.warning("device %s says that it runs document %d, which nobody made", device, hello.plan)
        is_there = self._connections.begin(device, hello.connection)
        if is_there and placer.hear(device, hello, self._now_s()):
            self._decide_soon()

    def _hear_gone(self, device: str, connection: int) -> None:
        if self._connections.end(device, connection):
            self._placer.presence.leave(device, self._now_s())

    def _hear_router(self, rest: tuple[str, ...], body: bytes) -> None:
        if rest == (TOOK,):
            self._answers.hold(read_device_took(body), self._find_inboxes())
        elif rest == (RATES,):
            self._heard_router_s = time.monotonic()
            self._count(read_counts(body))

    def _find_inboxes(self) -> list[Path]:
        sources = [source for group in self.kept.groups.values() for source in group.captured.values()]
        sources += [one.reported for one in self.kept.templates.values()]
        return [self.folder.capture(clock_of(source)) for source in sources]

    def _count(self, told: RouterCounts) -> None:
        placer, now_s = self._placer, time.monotonic()
        # One message tells of some devices only, where there are many.
        self.counts = replace(told, streams={**self.counts.streams, **told.streams})
        rows: dict[tuple[str, str], CountedMessages] = {}
        for device, streams in told.streams.items():
            group = placer.terms.group_of.get(device, "")
            sent = {one.stream: one.every_s for one in self._find_document(device).send}
            pairs = tuple(placer.find_pairs(device))
            for stream, counted in streams.items():
                if not stream.startswith(f"{RESULT_KIND}/"):
                    wanted_s = placer.terms.find_most_wanted(device, stream, pairs)
                    is_whole = stream in sent and sent[stream] <= wanted_s
                    placer.rates.count(device, stream, counted.rows, now_s, is_whole)
                    rows[group, stream] = rows.get((group, stream), CountedMessages()).add(counted)
        for (group, stream), counted in rows.items():
            placer.note_stream_bytes(group, stream, counted)
        all_rows = told.up.get(STREAM_KIND, CountedMessages())
        if all_rows.messages:
            placer.note_message_bytes(all_rows.bytes / all_rows.messages)

    def _find_document(self, device: str) -> Document:
        return self._placer.handover.told.get(device, Document(0))

    # Rows

    def _look(self, now_s: float) -> None:
        self._look_at_members()
        for name, one in self.kept.templates.items():
            self._look_at_pairs(self._rows[name], one)
        self._forget_absent()
        if all(rows.is_read for rows in self._rows.values()):
            self._placer.tell_unplaced(now_s)
        self._republish_revoked()
        self._tell_troubles(now_s)
        self.memory.save(self._placer.presence, self._now_s(), at_most_every_s=60.0)

    def _look_at_members(self) -> None:
        changed = False
        for name, group in self.kept.groups.items():
            members = self._tables.read_members(name, group)
            if members is not None:
                changed = True
                self._placer.use_members(name, members.ids)
                self._placer.use_capacities(name, members.changed)
                self._forget_members(group, members.gone)
                self._tables.note_members(name, members)
        self._is_registry_due = self._is_registry_due or changed
        if self._is_registry_due and self._tables.knows_members(self.kept.groups):
            set_members(self.folder, {name: sorted(self._tables.members[name]) for name in self.kept.groups})
            self._is_registry_due = False
            self._decide_soon()

    def _look_at_pairs(self, rows: FollowedPairs, one: KeptTemplate) -> None:
        members = self._tables.members.get(one.template.devices)
        if members is None:
            return
        inbox = self.folder.capture(clock_of(one.placement))
        found = rows.read(self.ledger, self.store, inbox, members, self._placer.presence)
        if found is None:
            return
        placer = self._placer
        if found.standing:
            placer.resume_pairs(found.standing, found.every)
        gone = placer.remove_pairs(found.gone)
        placer.add_pairs(found.new, found.every)
        self._write_later(one, dict.fromkeys((*gone, *found.strays), CLOUD))
        self._decide_soon()

    # Devices that are gone

    def _forget_absent(self) -> None:
        now_s = self._now_s()
        if self.broker_away is None:
            self._placer.presence.begin(now_s)
        for group in self.kept.groups.values():
            members = self._tables.members.get(group.devices.name, frozenset())
            absent = self._placer.presence.find_absent(group.devices.forget_s, now_s)
            seen = self._placer.presence.seen
            self._forget(group, {one: now_s - seen[one].since_s for one in absent if one in members})

    def _forget_members(self, group: KeptGroup, gone: frozenset[str]) -> None:
        placer = self._placer
        known = (one for one in sorted(gone) if placer.presence.is_known(one) or placer.find_pairs(one))
        self._forget(group, dict.fromkeys(known, 0.0))

    def _forget(self, group: KeptGroup, away_s: Mapping[str, float]) -> None:
        """Results of the data of devices go, each after so long: no pair of them runs anywhere, and the cloud has no
        row of them.
        """
        if not away_s:
            return
        counts = {device: len(self._placer.find_pairs(device)) for device in away_s}
        gone = self._placer.lose_devices(away_s)
        for name, one in self.kept.templates.items():
            self._rows[name].forget(frozenset(away_s))
            self._write_later(one, {pair: CLOUD for pair in gone if pair.template == name})
        for stream, source in group.captured.items():
            if group.terms.streams[stream].keep_s == 0.0:  # others go by themselves when they are too old
                keys = [fit_id(device, group.id_type) for device in away_s]
                write_rows(self.folder, source, (), [row for key in keys for row in _find_gone(key, source)])
        for device, passed_s in away_s.items():
            told = DeviceForgotten(self.clock(), group.devices.name, device, counts[device], passed_s)
            self.journal.emit(told)

    # Deciding

    def _decide_soon(self) -> None:
        if self._decide_s is None:
            self._decide_s = time.monotonic() + max(SOON_S, self._took_s / DECIDING_SOON)

    def _decide(self, now_s: float) -> None:
        is_period = now_s >= self._period_s
        if not is_period and (self._decide_s is None or now_s < self._decide_s):
            return
        self._decide_s = None
        decided = self._placer.decide(now_s, is_period)
        self._took_s = time.monotonic() - now_s
        if is_period:
            self._period_s = now_s + min(self.period_s, max(SHORTEST_PERIOD_S, self._took_s / DECIDING))
        for told in decided:
            self.told[told.group] = told
            if told.moves or told.best_s < told.cost_s:
                log.info("devices %s: %s", told.group, _say_judged(told))
            if told.moves:
                self.journal.emit(
                    PairsRedeployed(
                        self.clock(),
                        told.group,
                        told.moves,
                        told.cost_s,
                        told.best_s,
                        told.loss,
                        told.moving,
                        told.ratio,
                        told.bound,
                    )
                )

    # Acting

    def _act(self, client: CloudClient, now_s: float) -> None:
        placer = self._placer
        for answer in self._answers.release():
            placer.handover.hear(answer.device, answer.took.plan, answer.took.refused, now_s)
            self._tell_refused(answer)
        self._tell_dropped(now_s)
        ready = placer.handover.next_rows()
        for name, one in self.kept.templates.items():
            self._write_later(one, {pair: to for pair, to in ready.items() if pair.template == name})
        self._write_rows()
        for pairs in self._commits.release():
            placer.handover.commit(pairs)
        if now_s - self._published_s >= DOCUMENTS_EVERY_S:
            self._published_s = now_s
            self._publish_tables(client, now_s)  # first, so that a device which is told to read one can be given it
            self._publish(client, placer.next_documents(now_s))

    def _write_later(self, one: KeptTemplate, rows: dict[TemplatePair, str]) -> None:
        if rows:
            self._unwritten.append((one, rows))

    def _write_rows(self) -> None:
        """Raises ConnectError if the disk does not take them; they are written at the next round then."""
        while self._unwritten:
            one, rows = self._unwritten[0]
            keys = {pair: tuple(fit_id(text, one.id_type) for text in pair.ids) for pair in rows}
            upserts = [(*keys[pair], fit_id(to, one.id_type)) for pair, to in rows.items() if to != CLOUD]
            deletes = [(*keys[pair], None) for pair, to in rows.items() if to == CLOUD]
            write_rows(self.folder, one.placement, upserts, deletes)
            del self._unwritten[0]
            self._commits.hold(tuple(rows), [self.folder.capture(clock_of(one.placement))])
            self._tell_moved(one.template.name, rows)

    def _publish(self, client: CloudClient, documents: Mapping[str, Document]) -> None:
        if not documents:
            return
        self.memory.reserve(self._placer.handover.number)
        tokens = self._find_tokens(documents)
        size = 0
        for device, document in documents.items():
            body = write_document(sign(document, tokens[device]))
            size += len(body)
            client.publish(down_topic(self.project, device, "plan"), body, retain=True)
        self._placer.note_document_bytes(size, len(documents))

    def _find_tokens(self, devices: Mapping[str, object]) -> Mapping[str, str]:
        missing = [device for device in devices if device not in self._tokens]
        self._tokens |= {one.device: one.token for one in find_tokens(self.folder, self.project, missing)}
        return self._tokens

    def _republish_revoked(self) -> None:
        """A device with a new token needs its document signed anew."""
        version = registry_version(self.folder)
        if version == self._registry:
            return
        self._registry = version
        known, self._tokens = self._tokens, {}
        tokens = self._find_tokens(dict.fromkeys(known))
        for device, token in known.items():
            if tokens[device] != token:
                self._placer.handover.forget_told(device)

    def _publish_tables(self, client: CloudClient, now_s: float) -> None:
        self._later_s = {name: at_s for name, at_s in self._later_s.items() if now_s < at_s}
        for name, table in self._tables.next_tables(self._later_s).items():
            key = f"{PLACEMENT}table {name}"
            try:
                messages = write_table(self.project, name, Sent(table.t, table.t // 1000, table.rows))
            except WireError as error:
                what = f'table "{name}" is too large for devices, which go on with earlier rows: {error}'
                self.troubles.report(key, what, "have views join a smaller table, such as a view of it")
                messages = TableMessages({}, is_in_parts=True)
            else:
                self.troubles.clear(key)
            for topic, body in messages.bodies.items():
                client.publish(topic, body, retain=True)
            if messages.is_in_parts:
                self._later_s[name] = now_s + LARGE_TABLE_S
            self._tables.note_published(name, table.version)

    # Telling

    def _tell_moved(self, template: str, rows: Mapping[TemplatePair, str]) -> None:
        standing = self._placer.handover.standing
        moved = {pair: to for pair, to in rows.items() if pair in standing}
        if moved:
            after = {pair: moved.get(pair, at) for pair, at in standing.items() if pair.template == template}
            to_cloud = sum(1 for to in moved.values() if to == CLOUD)
            on_devices = sum(1 for at in after.values() if at != CLOUD)
            event = PairsMoved(self.clock(), template, len(moved) - to_cloud, to_cloud, len(after), on_devices)
            self.journal.emit(event)

    def _tell_dropped(self, now_s: float) -> None:
        dropped: dict[str, list[str]] = {}
        for one in self._placer.drop_late(now_s):
            dropped.setdefault(one.pair.template, []).append(one.silent[0] if one.silent else one.to)
        for template, devices in dropped.items():
            self.journal.emit(MovesDropped(self.clock(), template, len(devices), devices[0]))

    def _tell_refused(self, answer: DeviceTook) -> None:
        for template, why in answer.took.refused.items():
            if self._refused.get((template, answer.device)) != why:
                self.journal.emit(ProgramRefused(self.clock(), template, answer.device, reason=why))
                self._decide_soon()
        mine = {(template, answer.device): why for template, why in answer.took.refused.items()}
        self._refused = {key: why for key, why in self._refused.items() if key[1] != answer.device} | mine

    def _tell_troubles(self, now_s: float) -> None:
        away = None if self._client is None else self._client.away
        if away is not None and self._now_s() - away[0] > AWAY_S:
            hint = "devices go on with what they do, and send what waits when it is back; the service keeps trying"
            self.troubles.report(f"{PLACEMENT}broker", f"the broker of devices is away: {away[1]}", hint, away[0])
        else:
            self.troubles.clear(f"{PLACEMENT}broker")
        silent_s = now_s - self._heard_router_s
        if away is None and silent_s > SILENT_S:
            what = "the router of devices has said nothing for a while: rows and results of devices do not arrive"
            hint = "devices keep what they could not send; see .headrace/devices/. The service keeps trying"
            self.troubles.report(f"{PLACEMENT}router", what, hint, self._now_s() - silent_s)
        else:
            self.troubles.clear(f"{PLACEMENT}router")
        placer = self._placer
        absent, since = find_absent(placer.handover.standing, placer.presence, self._now_s())
        self.troubles.report_exactly(ABSENT, absent, since)
        derived = {name for group in self.kept.groups.values() for name in group.terms.derived}
        self.troubles.report_exactly(UNCOMPUTED, find_uncomputed(derived, placer.handover.refused))

    @property
    def broker_away(self) -> tuple[float, str] | None:
        """The time since which its broker is away, and why; None while it is there."""
        return None if self._client is None else self._client.away

    @property
    def members(self) -> Mapping[str, frozenset[str]]:
        return self._tables.members

    @property
    def _placer(self) -> Placer:
        assert self.placer is not None, "templates run"
        return self.placer

    def _now_s(self) -> float:
        return self.clock() / 1e6


def _find_gone(device: Value, source: Source) -> list[Row]:
    """Rows of a stream of a device by their keys. Of a derived one nobody here knows how many there are."""
    columns = [one.name for one in source.columns or ()]
    empty = tuple(None for _ in columns[len(source.key) :])
    keys: list[Row] = [(device,)] if source.key == (DEVICE,) else [(device, one) for one in range(MOST_DERIVED_ROWS)]
    return [(*key, *empty) for key in keys]


def _find_rates(kept: KeptTemplates) -> dict[str, float]:
    return {
        stream.name: stream.rate
        for group in kept.groups.values()
        for stream in group.devices.streams
        if stream.rate is not None
    }


def _find_made_of(kept: KeptTemplates) -> dict[str, tuple[str, ...]]:
    return {name: made.streams for group in kept.groups.values() for name, made in group.devices.derived.items()}


def _say_judged(told: Redeployed) -> str:
    bound = "no bound" if told.bound is None else f"at most {told.bound:.2f}"
    ratio = "" if told.ratio is None else f", paid {told.ratio:.3f} times the best ({bound})"
    moves = f"{told.moves} pairs move" if told.moves else "nothing moves"
    costs = f"costs {told.cost_s:.4g}/s, the best {told.best_s:.4g}/s; lost {told.loss:.4g} of {told.moving:.4g}"
    return f"{costs}; {moves}{ratio}"
