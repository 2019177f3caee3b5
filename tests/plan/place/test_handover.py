"""However documents, answers and captures are interleaved, lost or late, apps read every pair from a place that has it.

The model below has devices that take the newest document now and then, an inbox whose rows are captured later, and a
service that dies. It knows nothing of stages: it looks at what runs where, and at what apps read.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from headrace.model.device_messages import CLOUD, Document, Run, SendStream
from headrace.plan.place.handover import ANSWER_WITHIN_S, Duties, Handover, MoveStage, TemplatePair

IDS = ("d0", "d1", "d2", "d3")


def near(*ids: str) -> TemplatePair:
    return TemplatePair("near", ids)


def write_duties(device: str, duties: Duties) -> Document:
    """A document that says duties by their pairs, in place of programs and streams."""
    runs = (Run(pair.template, "p", "a", pair.ids, report=True) for pair in duties.run)
    return Document(0, run=tuple(runs), send=tuple(SendStream(",".join(pair.ids), 0.0) for pair in duties.send))


def runs(document: Document | None, pair: TemplatePair) -> bool:
    return document is not None and any(one.partners == pair.ids for one in document.run)


def sends(document: Document | None, pair: TemplatePair) -> bool:
    return document is not None and any(one.stream == ",".join(pair.ids) for one in document.send)


@dataclass
class World:
    """`rows` are what apps read by; of `answers` the oldest arrives first, with what the device ran then."""

    rng: random.Random
    handover: Handover = field(default_factory=Handover)
    pairs: set[TemplatePair] = field(default_factory=set)
    retained: dict[str, Document] = field(default_factory=dict)
    running: dict[str, Document] = field(default_factory=dict)
    answers: list[tuple[str, int, Mapping[str, str]]] = field(default_factory=list)
    inbox: list[dict[TemplatePair, str]] = field(default_factory=list)
    rows: dict[TemplatePair, str] = field(default_factory=dict)
    served: set[TemplatePair] = field(default_factory=set)
    """Pairs that the cloud had all streams of, at some time since they are its."""
    added: dict[TemplatePair, int] = field(default_factory=dict)
    """Numbers of documents that were made before a pair was there: these may speak of an earlier pair of that name."""
    absent: set[str] = field(default_factory=set)
    now_s: float = 0.0
    switches: int = 0

    def step(self) -> None:
        often = (self.publish, self.take, self.take, self.take, self.answer, self.answer, self.write, self.capture)
        moving = (*3 * (self.decide,), self.change_pairs, self.wait, self.tell)
        seldom = (*moving, self.leave, *2 * (self.come_back,), self.die)
        self.rng.choice(often if self.rng.random() < 0.9 else seldom)()
        self.check()

    def change_pairs(self) -> None:
        pair = near(*self.rng.choices(IDS, k=self.rng.choice((1, 2, 2, 2))))
        if pair in self.pairs:
            self.pairs.discard(pair)
            self.delete_rows(self.handover.remove([pair]))
        else:
            self.pairs.add(pair)
            self.added[pair] = self.handover.number
            self.handover.add([pair])
        self.served.discard(pair)

    def delete_rows(self, pairs: Iterable[TemplatePair]) -> None:
        gone = dict.fromkeys(pairs, CLOUD)
        if gone:
            self.inbox.append(gone)

    def decide(self) -> None:
        some = [pair for pair in sorted(self.pairs) if self.rng.random() < 0.6]
        self.handover.want({pair: self.rng.choice((CLOUD, *pair.ids)) for pair in some}, self.now_s)

    def tell(self) -> None:
        """A device that is there is told its duties, even if it has none."""
        self.handover.tell(self.rng.choice(IDS))

    def publish(self) -> None:
        for device, document in self.handover.next_documents(write_duties, self.now_s).items():
            before = self.retained.get(device)
            assert before is None or document.plan > before.plan, "a device takes newer documents only"
            self.retained[device] = document

    def take(self) -> None:
        device = self.rng.choice(IDS)
        document = self.find_newer(device)
        if document is None or device in self.absent:
            return
        refused = {"near": "too deep"} if document.run and self.rng.random() < 0.1 else {}
        # A view that it ran before it goes on with, whatever it says of new ones.
        old = self.running.get(device)
        kept = tuple(one for one in document.run if not refused or (old is not None and one in old.run))
        self.running[device] = Document(document.plan, run=kept, send=document.send)
        self.answers.append((device, document.plan, refused))

    def find_newer(self, device: str) -> Document | None:
        document, old = self.retained.get(device), self.running.get(device)
        return document if document is not None and (old is None or old.plan < document.plan) else None

    def answer(self) -> None:
        if self.answers:
            self.handover.hear(*self.answers.pop(0), self.now_s)

    def write(self) -> None:
        ready = self.handover.next_rows()
        if ready:
            self.inbox.append(ready)

    def capture(self) -> None:
        if not self.inbox:
            return
        changed = self.inbox.pop(0)
        for pair, at in changed.items():
            self.switches += pair in self.pairs and self.rows.get(pair, CLOUD) != at
            if at == CLOUD:
                self.rows.pop(pair, None)
                if pair in self.pairs and pair in self.handover.moves:
                    assert self.cloud_has(pair), f"{pair} was switched to a cloud that lacks a stream"
                    self.served.add(pair)
            else:
                self.rows[pair] = at
                self.served.discard(pair)
        self.handover.commit(changed)

    def wait(self) -> None:
        self.now_s += self.rng.choice((1.0, 1.0, 1.0, ANSWER_WITHIN_S))
        self.handover.drop_late(self.now_s)

    def leave(self) -> None:
        self.absent.add(self.rng.choice(IDS))

    def come_back(self) -> None:
        self.absent.clear()

    def die(self) -> None:
        """A new service waits until all rows that were written are captured, and goes on with these."""
        self.served.clear()
        while self.inbox:
            for pair, at in self.inbox.pop(0).items():
                self.rows.pop(pair, None) if at == CLOUD else self.rows.update({pair: at})
        self.handover = Handover(number=max((one.plan for one in self.retained.values()), default=0))
        self.handover.resume({pair: self.rows.get(pair, CLOUD) for pair in self.pairs})
        self.delete_rows(self.rows.keys() - self.pairs)

    # What holds at every moment

    def cloud_has(self, pair: TemplatePair) -> bool:
        return all(sends(self.running.get(device), pair) for device in pair.ids)

    def check(self) -> None:
        for pair in self.pairs:
            at = self.rows.get(pair, CLOUD)
            if at == CLOUD:
                assert pair not in self.served or self.cloud_has(pair), f"the cloud lost a stream of {pair}"
                is_new = any(self.running[one].plan <= self.added[pair] for one in pair.ids if one in self.running)
                self.served |= {pair} if self.cloud_has(pair) and not is_new else set()
            elif at in pair.ids and not self.is_being_deleted(pair):
                assert runs(self.running.get(at), pair), f"apps read {pair} from {at}, which does not run it"
                others = set(pair.ids) - {at}
                assert all(sends(self.running.get(one), pair) for one in others), f"{at} misses a stream of {pair}"

    def is_being_deleted(self, pair: TemplatePair) -> bool:
        """Whether it was removed, and is there again before its old row is gone."""
        return any(pair in one for one in self.inbox) and self.handover.standing.get(pair) == CLOUD

    def settle(self) -> None:
        """Everybody is there and answers, until nothing happens any more."""
        self.absent.clear()
        for _ in range(60):
            self.publish()
            for device in IDS:
                document = self.find_newer(device)
                if document is not None:
                    self.running[device] = document
                    self.answers.append((device, document.plan, {}))
            while self.answers:
                self.answer()
            self.write()
            while self.inbox:
                self.capture()
            self.check()


@pytest.mark.parametrize("seed", range(200))
def test_every_pair_is_read_where_it_runs_whatever_happens_in_between(seed: int) -> None:
    world = World(random.Random(seed))
    for _ in range(500):
        world.step()
    world.settle()
    wanted = {pair: world.rng.choice((CLOUD, *pair.ids)) for pair in sorted(world.pairs)}
    world.handover.want(wanted, world.now_s)
    world.settle()
    assert {pair: world.rows.get(pair, CLOUD) for pair in world.pairs} == wanted
    for device in IDS:
        told = world.running.get(device)
        for pair in sorted(world.pairs):
            assert runs(told, pair) is (wanted[pair] == device), "nothing runs twice in the end"
            assert sends(told, pair) is (device in pair.ids and wanted[pair] != device)


def test_worlds_do_move_pairs() -> None:
    """The test above would hold for a service that never switches anything."""
    switches = 0
    for seed in range(20):
        world = World(random.Random(seed))
        for _ in range(500):
            world.step()
        switches += world.switches
    assert switches > 40


def settled(at: Mapping[TemplatePair, str]) -> Handover:
    found = Handover()
    found.resume(at)
    for device, document in found.next_documents(write_duties, 0.0).items():
        found.hear(device, document.plan, {}, 0.0)
    return found


def test_a_host_is_told_only_after_its_partner_sends() -> None:
    pair = near("d0", "d1")
    found = settled({pair: "d0"})
    found.want({pair: "d1"}, 0.0)
    first = found.next_documents(write_duties, 0.0)
    assert first.keys() == {"d0"} and sends(first["d0"], pair) and runs(first["d0"], pair)
    found.hear("d0", first["d0"].plan, {}, 1.0)
    second = found.next_documents(write_duties, 1.0)
    assert second.keys() == {"d1"} and runs(second["d1"], pair) and sends(second["d1"], pair)
    assert not found.next_rows()
    found.hear("d1", second["d1"].plan, {}, 2.0)
    assert found.next_rows() == {pair: "d1"}
    assert not found.next_documents(write_duties, 2.0), "nobody ends anything before the switch is captured"
    found.commit([pair])
    last = found.next_documents(write_duties, 3.0)
    assert not runs(last["d0"], pair) and not sends(last["d1"], pair)


def test_a_move_that_nobody_answers_is_dropped() -> None:
    pair = near("d0", "d1")
    found = settled({pair: CLOUD})
    found.want({pair: "d0"}, 0.0)
    found.next_documents(write_duties, 0.0)
    assert not found.drop_late(ANSWER_WITHIN_S - 0.1)
    dropped = found.drop_late(ANSWER_WITHIN_S)
    assert [(one.pair, one.to, one.silent) for one in dropped] == [(pair, "d0", ("d0",))]
    assert found.standing[pair] == CLOUD and not found.moves
    again = found.next_documents(write_duties, ANSWER_WITHIN_S)
    assert not runs(again["d0"], pair), "it shall not begin when it is back"


def test_a_late_answer_to_a_dropped_move_switches_nothing() -> None:
    pair = near("d0", "d1")
    found = settled({pair: CLOUD})
    found.want({pair: "d0"}, 0.0)
    document = found.next_documents(write_duties, 0.0)["d0"]
    found.drop_late(ANSWER_WITHIN_S)
    found.hear("d0", document.plan, {}, ANSWER_WITHIN_S + 1.0)
    assert not found.next_rows()


def test_a_new_pair_asks_nobody_to_send_to_a_cloud_that_will_not_run_it() -> None:
    pair = near("d0", "d1")
    found = Handover()
    found.add([pair])
    assert not found.next_documents(write_duties, 0.0)
    found.want({pair: "d0"}, 0.0)
    first = found.next_documents(write_duties, 0.0)
    assert sends(first["d1"], pair) and not sends(first["d0"], pair)


def test_a_refused_program_is_not_switched_to_and_told() -> None:
    pair = near("d0", "d1")
    found = settled({pair: CLOUD})
    found.want({pair: "d0"}, 0.0)
    document = found.next_documents(write_duties, 0.0)["d0"]
    assert found.hear("d0", document.plan, {"near": "no such function"}, 1.0) == [pair]
    assert found.refused == {("near", "d0"): "no such function"}
    assert not found.moves and not found.next_rows()


def test_a_device_that_sends_already_is_not_asked_again() -> None:
    pair, other = near("d0", "d1"), near("d0", "d2")
    found = Handover()
    found.resume({pair: CLOUD, other: CLOUD})

    def describe(device: str, duties: Duties) -> Document:
        streams = (SendStream("location", 1.0),) if duties.send else ()
        return Document(0, run=write_duties(device, duties).run, send=streams)

    for device, document in found.next_documents(describe, 0.0).items():
        found.hear(device, document.plan, {}, 0.0)
    found.want({pair: "d1"}, 0.0)
    made = found.next_documents(describe, 0.0)
    assert made.keys() == {"d1"}, "d0 sends its stream to the cloud in any case"
    assert found.moves[pair].stage is MoveStage.HOSTING


def test_a_device_cannot_use_up_the_numbers_of_documents():
    handover = Handover()
    handover.begin_after(10)
    assert not handover.begin_after_told((1 << 63) - 1) and not handover.begin_after_told(2_000_000)
    assert handover.number == 10
    assert handover.begin_after_told(500) and handover.number == 500, "this state was of an earlier copy"
    handover.begin_after(1 << 53)
    assert not handover.begin_after_told((1 << 53) + 1)
