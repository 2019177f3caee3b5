"""What is placed where, and when pairs move: with devices that answer at once, and a clock that is turned by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinate.devices.placer import Placer, Redeployed
from headrace.model.cloud_messages import CountedMessages
from headrace.model.device_messages import CLOUD, Document, Hello, StreamShape
from headrace.model.types import DOUBLE
from headrace.plan.place.demands import count_traffic, price_traffic, weigh_demands, weigh_streams
from headrace.plan.place.device_documents import DerivedTerms, DocumentTerms, GroupTerms, TemplateTerms
from headrace.plan.place.group import GroupPlacement
from headrace.plan.place.handover import TemplatePair
from headrace.plan.place.instance import Device
from headrace.plan.place.pair_columns import DeviceFacts, PairRows, TemplateDemand
from headrace.plan.place.place_templates import place_templates
from tests.examples import examples

BOTH = {"a": ("location",), "b": ("location",)}
TERMS = DocumentTerms(
    {"near": TemplateTerms("near", "phones", "f1", "(near)", BOTH)},
    {"phones": GroupTerms({"location": StreamShape((("lat", DOUBLE),))})},
)
PRICES = {"phones": Device(1, 1)}


def near(a: str, b: str) -> TemplatePair:
    return TemplatePair("near", (a, b))


@dataclass
class Phones:
    """Devices that take whatever they are told, unless they are silent, and rows that are captured at once."""

    placer: Placer = field(default_factory=lambda: Placer(TERMS))
    terms: DocumentTerms = TERMS
    silent: set[str] = field(default_factory=set)
    refuses: dict[str, Mapping[str, str]] = field(default_factory=dict)
    rows: dict[TemplatePair, str] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    published: int = 0
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.placer.use_terms(self.terms, PRICES)

    def come(self, **rates: float) -> None:
        for device, rate in rates.items():
            plan = self.documents[device].plan if device in self.documents else 0
            self.placer.hear(device, Hello(plan, ("location",), connection=1), self.now_s)
            self.placer.rates.hear(device, {"location": rate})

    def settle(self) -> None:
        for _ in range(20):
            for device, document in self.placer.next_documents(self.now_s).items():
                self.documents[device] = document
                self.published += 1
                if device not in self.silent:
                    refused = {
                        template: why
                        for template, why in self.refuses.get(device, {}).items()
                        if any(one.template == template for one in document.run)
                    }
                    self.placer.handover.hear(device, document.plan, refused, self.now_s)
            ready = self.placer.handover.next_rows()
            self.rows |= ready
            self.placer.handover.commit(ready)

    def after(self, seconds: float) -> list[Redeployed]:
        self.now_s += seconds
        self.placer.drop_late(self.now_s)
        told = self.placer.decide(self.now_s)
        self.settle()
        return told

    def at(self, pair: TemplatePair) -> str:
        return self.placer.handover.standing[pair]


def test_a_new_pair_is_placed_as_soon_as_both_devices_were_seen() -> None:
    phones, pair = Phones(), near("alice", "bob")
    phones.placer.add_pairs([pair], {})
    phones.come(bob=0.1)
    phones.after(1.0)
    assert not phones.documents, "nobody sends anything for a device that nobody has seen"
    phones.come(alice=1 / 3600)
    phones.after(1.0)
    assert phones.at(pair) == "bob" and phones.rows == {pair: "bob"}
    assert phones.documents["alice"].send and not phones.documents["bob"].send


def test_pairs_move_when_staying_has_cost_as_much_as_moving() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.placer.add_pairs([pair], {})
    phones.come(d0=10.0, d1=1.0)
    phones.after(1.0)
    assert phones.at(pair) == "d0"
    phones.come(d0=1.0, d1=10.0)
    moved = []
    for _ in range(10):
        (told,) = phones.after(60.0)
        moved.append(told.moves)
        if phones.at(pair) == "d1":
            break
    assert phones.at(pair) == "d1" and sum(moved) == 1
    assert told.cost_s == pytest.approx(20.0) and told.best_s == pytest.approx(2.0), "up and down are both paid"
    assert told.loss >= told.moving
    assert told.bound is not None and told.ratio is not None and told.ratio <= told.bound
    (told,) = phones.after(60.0)
    assert told.cost_s == told.best_s and not told.moves


def test_a_small_change_of_rates_changes_nothing() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.placer.add_pairs([pair], {})
    phones.come(d0=1.0, d1=1.1)
    phones.after(1.0)
    published = phones.published
    phones.come(d0=1.15, d1=1.0)
    for _ in range(5):
        phones.after(60.0)
    assert phones.published == published


def test_pairs_of_a_device_that_is_away_stay_where_they_are() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.placer.add_pairs([pair], {})
    phones.come(d0=10.0, d1=1.0)
    phones.after(1.0)
    phones.placer.presence.leave("d0", phones.now_s)
    phones.come(d1=500.0)
    for _ in range(5):
        phones.after(60.0)
    assert phones.at(pair) == "d0"
    phones.come(d0=0.1)
    for _ in range(3):
        phones.after(60.0)
    assert phones.at(pair) == "d1"


def test_a_device_that_refuses_a_program_leaves_it_to_the_cloud() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.refuses["d0"] = {"near": "no function distance"}
    phones.placer.add_pairs([pair], {})
    phones.come(d0=10.0, d1=1.0)
    for _ in range(3):
        phones.after(60.0)
    assert phones.at(pair) == CLOUD and not phones.rows
    assert phones.documents["d0"].send and not phones.documents["d0"].run


def test_a_device_that_does_not_answer_keeps_things_as_they_are() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.silent.add("d0")
    phones.placer.add_pairs([pair], {})
    phones.come(d0=10.0, d1=1.0)
    phones.after(1.0)
    assert phones.at(pair) == CLOUD and pair in phones.placer.handover.moves
    phones.now_s += 31.0
    assert [one.silent for one in phones.placer.drop_late(phones.now_s)] == [("d0",)]
    phones.settle()
    assert phones.documents["d1"].send, "the cloud serves the pair"


def test_a_capacity_that_shrinks_moves_pairs_at_once() -> None:
    phones = Phones()
    pairs = [near("d0", one) for one in ("d1", "d2", "d3")]
    phones.placer.add_pairs(pairs, {})
    phones.come(d0=50.0, d1=1.0, d2=1.0, d3=1.0)
    phones.after(1.0)
    assert {phones.at(pair) for pair in pairs} == {"d0"}
    phones.placer.use_capacities("phones", {"d0": Device(1, 1, 1)})
    phones.placer.decide(phones.now_s, is_period=False)
    phones.settle()
    assert {phones.at(pair) for pair in pairs} == {CLOUD}


def test_pairs_that_are_gone_leave_no_row() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.placer.add_pairs([pair], {})
    phones.come(d0=10.0, d1=1.0)
    phones.after(1.0)
    assert phones.placer.remove_pairs([pair]) == [pair]
    phones.settle()
    assert not phones.documents["d0"].run and not phones.documents["d1"].send


def test_a_new_service_goes_on_with_what_the_ledger_says() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.placer.resume_pairs({pair: "d1"}, {})
    phones.come(d0=10.0, d1=1.0)
    phones.settle()
    assert phones.documents["d1"].run and phones.documents["d0"].send
    for _ in range(4):
        phones.after(60.0)
    assert phones.at(pair) == "d0"


def test_another_program_is_told_to_all_who_run_it() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.placer.add_pairs([pair], {})
    phones.come(d0=10.0, d1=1.0)
    phones.after(1.0)
    other = DocumentTerms({"near": TemplateTerms("near", "phones", "f2", "(nearer)", BOTH)}, TERMS.groups)
    assert not phones.placer.use_terms(other, PRICES)
    phones.settle()
    assert phones.documents["d0"].programs == {"f2": "(nearer)"}
    gone = phones.placer.use_terms(DocumentTerms({}, TERMS.groups), PRICES)
    assert gone == [pair]


def test_what_is_placed_costs_what_deciding_from_nothing_would() -> None:
    phones = Phones()
    ids = [f"d{number}" for number in range(12)]
    rates = {one: 40.0 / (number + 1) for number, one in enumerate(ids)}
    pairs = [near(ids[i], ids[j]) for i in range(12) for j in range(i) if (i * j) % 3 == 1]
    phones.placer.add_pairs(pairs[: len(pairs) // 2], {})
    phones.come(**rates)
    phones.after(1.0)
    phones.placer.add_pairs(pairs[len(pairs) // 2 :], {})
    phones.come(**{one: rate * (5.0 if number % 2 else 0.4) for number, (one, rate) in enumerate(rates.items())})
    for _ in range(6):
        (told,) = phones.after(60.0)
    group = GroupPlacement(Device(1, 1))
    group.change_pairs(added={pair: TERMS.find_demands(pair, phones.placer.rates.find_rate) for pair in pairs})
    assert told.cost_s == pytest.approx(count_traffic(group.demands, group.place_all()).messages_s)


def test_a_pair_that_asks_for_less_is_decided_again() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.placer.add_pairs([pair], {pair: {"a": 100.0}})
    phones.come(d0=10.0, d1=1.0)
    phones.after(1.0)
    assert phones.at(pair) == "d1", "of d0 it needs a row every 100 s"
    assert phones.documents["d0"].send[0].every_s == 100.0
    phones.placer.add_pairs([], {pair: {"a": 0.0}})
    phones.placer.decide(phones.now_s, is_period=False)
    phones.settle()
    assert phones.at(pair) == "d0"
    phones.placer.use_terms(TERMS, {"phones": Device(1, 1)})
    phones.settle()
    assert phones.placer.terms.every == {pair: {"a": 0.0}}


def test_other_prices_decide_again() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.placer.add_pairs([pair], {})
    phones.come(d0=3.0, d1=2.0)
    phones.after(1.0)
    assert phones.at(pair) == "d0"
    phones.placer.use_terms(TERMS, {"phones": Device(1, 10)})
    phones.placer.decide(phones.now_s, is_period=False)
    phones.settle()
    assert phones.at(pair) == CLOUD, "taking a row costs ten times as much as sending it"


@pytest.mark.parametrize("seed", range(10))
def test_devices_that_come_back_one_by_one_end_where_deciding_from_nothing_would_place_them(seed: int) -> None:
    """A service that was restarted knows all devices, and none is there. Nothing is lost yet, so that no move pays for
    itself: but whoever is in a new pair is told something anyway.
    """
    phones, rng = Phones(), random.Random(seed)
    ids = [f"d{number}" for number in range(12)]
    rates = {one: 0.1 * 3.0 ** rng.uniform(0.0, 4.0) for one in ids}
    phones.come(**rates)
    for one in ids:
        phones.placer.presence.leave(one, phones.now_s)
    pairs = sorted({near(*sorted(rng.sample(ids, 2))) for _ in range(16)})
    phones.placer.add_pairs(pairs, {pair: {"a": 2.0 ** rng.randint(-3, 4)} for pair in pairs})
    phones.after(1.0)
    assert set(phones.placer.handover.standing.values()) == {CLOUD}
    for one in rng.sample(ids, len(ids)):
        phones.come(**{one: rates[one]})
        phones.placer.decide(phones.now_s, is_period=False)
        phones.settle()
    (told,) = phones.after(1.0)
    assert told.cost_s == pytest.approx(told.best_s) and not told.moves
    assert set(phones.placer.handover.standing.values()) != {CLOUD}


def test_a_partner_that_is_away_does_not_have_pairs_move_for_nothing() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.come(d0=1.5, d1=1.0, x=1.0)
    phones.placer.presence.leave("x", phones.now_s)
    phones.placer.add_pairs([pair, near("d0", "x"), near("d1", "x")], {})
    phones.after(1.0)
    published = phones.published
    for number in range(10):
        phones.come(**({"d0": 1.0, "d1": 1.5} if number % 2 else {"d0": 1.5, "d1": 1.0}))
        phones.placer.decide(phones.now_s, is_period=False)
        phones.settle()
    assert phones.published == published


def test_nothing_is_left_of_a_device_that_is_lost() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.placer.add_pairs([pair], {})
    phones.come(d0=10.0, d1=1.0)
    phones.after(60.0)
    phones.placer.handover.hear("d0", phones.documents["d0"].plan, {"my_place": "too many rows"}, phones.now_s)
    assert phones.placer.handover.refused
    phones.placer.use_capacities("phones", {"d0": Device(1, 1, 0)})
    phones.placer.lose_devices({"d0"})
    assert not phones.placer.handover.refused and not phones.placer.find_pairs("d1")
    phones.placer.add_pairs([pair], {})
    phones.come(d0=10.0)
    phones.after(61.0)
    assert phones.at(pair) == CLOUD, "d0 still has no room"


def test_a_pair_follows_when_a_new_one_changes_what_its_device_costs() -> None:
    """With one partner, d0 had better take that one's rows than send its own; with two it is the other way round."""
    phones, first, second = Phones(), near("d0", "d1"), near("d0", "d2")
    phones.placer.add_pairs([first, second], {})
    phones.come(d0=1.0, d1=0.6)
    phones.after(1.0)
    assert phones.at(first) == "d0"
    phones.come(d2=0.6)
    phones.placer.decide(phones.now_s, is_period=False)
    phones.settle()
    assert (phones.at(first), phones.at(second)) == (CLOUD, CLOUD)


def test_a_host_that_loses_much_moves_before_others_that_lose_little() -> None:
    phones = Phones()
    fast, slow = near("d0", "d1"), near("d2", "d3")
    phones.placer.add_pairs([fast, slow], {})
    phones.come(d0=10.0, d1=1.0, d2=0.002, d3=0.001)
    phones.after(1.0)
    assert (phones.at(fast), phones.at(slow)) == ("d0", "d2")
    phones.come(d0=1.0, d1=10.0, d2=0.001, d3=0.002)
    for _ in range(5):
        phones.after(60.0)
    assert (phones.at(fast), phones.at(slow)) == ("d1", "d2")


def test_a_pair_is_described_where_it_runs_with_rates_as_they_are_measured() -> None:
    phones, pair = Phones(), near("d0", "d1")
    phones.placer.add_pairs([pair, near("d1", "d2")], {})
    phones.come(d0=10.04321, d1=1.0)
    phones.after(1.0)
    found = phones.placer.describe_pair(pair)
    assert found is not None and found.standing[pair] == "d0" and found.away == ()
    assert found.demands[pair][0].rate == 10_000_000 and near("d1", "d2") in found.demands
    assert phones.placer.describe_pair(near("d0", "d7")) is None


def test_a_device_that_no_pair_names_is_told_what_its_streams_are_like_after_a_while() -> None:
    phones = Phones()
    phones.placer.use_members("phones", frozenset({"d0", "d1", "d2"}))
    phones.come(d0=1.0)
    for seconds in range(7):
        phones.placer.tell_unplaced(float(seconds))
        phones.settle()
        assert bool(phones.documents) == (seconds >= 5)
    told = phones.documents["d0"]
    assert told.streams and not told.run and not told.send and phones.published == 1
    assert phones.documents.keys() == {"d0"}, "d1 and d2 are not there"
    phones.placer.add_pairs([near("d0", "d1")], {})
    phones.come(d1=10.0)
    phones.after(10.0)
    assert phones.documents["d0"].send and phones.at(near("d0", "d1")) == "d1"


def test_a_device_whose_partner_may_come_is_told_nothing_while_a_short_run_lasts() -> None:
    phones = Phones()
    phones.placer.use_members("phones", frozenset({"d0", "d1"}))
    phones.placer.add_pairs([near("d0", "d1")], {})
    phones.come(d0=1.0)
    for seconds in (0.0, 6.0, 31.0):
        phones.placer.tell_unplaced(seconds)
        phones.settle()
    assert not phones.documents
    phones.placer.tell_unplaced(60.0)
    phones.settle()
    assert phones.documents["d0"].streams and not phones.documents["d0"].send
    phones.come(d1=10.0)
    phones.after(61.0)
    assert phones.documents["d0"].send


def test_a_device_that_was_away_meanwhile_waits_anew() -> None:
    phones = Phones()
    phones.placer.use_members("phones", frozenset({"d0"}))
    for seconds in (0.0, 4.0, 4.5, 5.5):
        phones.placer.presence.leave("d0", seconds) if seconds == 4.0 else phones.come(d0=1.0)
        phones.placer.tell_unplaced(seconds)
    phones.settle()
    assert not phones.documents


def test_devices_are_told_of_another_program_of_what_they_derive():
    def terms(program: str) -> DocumentTerms:
        shapes = {"location": StreamShape((("lat", DOUBLE),)), "spot": StreamShape((("lat", DOUBLE),))}
        spot = {"spot": DerivedTerms(f"of {program}", program)}
        near_spots = TemplateTerms("near", "phones", "f1", "(near)", {"a": ("spot",), "b": ("spot",)})
        return DocumentTerms({"near": near_spots}, {"phones": GroupTerms(shapes, derived=spot)})

    phones = Phones()
    phones.placer.use_terms(terms("(one)"), PRICES)
    phones.come(**{"1": 1.0, "2": 1.0})
    phones.placer.add_pairs([near("1", "2")], {})
    phones.placer.decide(0.0)
    phones.settle()
    assert phones.documents["1"].derived == {"spot": "of (one)"}
    phones.placer.use_terms(terms("(other)"), PRICES)
    phones.placer.decide(1.0)
    phones.settle()
    assert phones.documents["1"].derived == phones.documents["2"].derived == {"spot": "of (other)"}


def test_a_device_that_did_not_get_its_document_is_told_again() -> None:
    phones, hello = Phones(), Hello(0, ("location",), connection=2)
    phones.come(alice=1.0, bob=5.0)
    phones.placer.add_pairs([near("alice", "bob")], {})
    phones.after(1)
    told = phones.documents["alice"]
    for said, is_told_again in (
        (hello, False),  # the document may be on its way
        (replace(hello, connection=3), False),  # it comes with a new connection
        (replace(hello, connection=3), True),
        (replace(hello, plan=told.plan + 100, connection=3), False),
    ):
        phones.placer.hear("alice", said, phones.now_s)
        made = phones.placer.next_documents(phones.now_s)
        assert ("alice" in made) == is_told_again, said
        if is_told_again:
            assert replace(made["alice"], plan=0) == replace(told, plan=0) and made["alice"].plan > told.plan


WIDE = DocumentTerms(
    {"near": TemplateTerms("near", "phones", "f1", "(near)", {"a": ("location",), "b": ("photo",)})},
    {
        "phones": GroupTerms(
            {"location": StreamShape((("lat", DOUBLE),)), "photo": StreamShape((("lat", DOUBLE),))},
            sizes={"location": 50.0, "photo": 500.0},
        )
    },
)


def test_wide_rows_stay_where_they_are_although_they_are_fewer() -> None:
    """One location a second for half a photo of ten times its width: 2 messages' worth instead of 10."""
    pair = near("alice", "bob")
    for sizes, place in (({}, "alice"), (WIDE.groups["phones"].sizes, "bob")):
        terms = replace(WIDE, groups={"phones": replace(WIDE.groups["phones"], sizes=sizes)})
        phones = Phones(Placer(terms), terms=terms)
        phones.placer.add_pairs([pair], {})
        phones.come(alice=1.0, bob=1.0)
        phones.placer.rates.hear("bob", {"photo": 0.5})
        phones.after(1.0)
        assert phones.at(pair) == place
        placed, in_cloud = phones.placer.count_traffic("near")
        assert placed.messages_s == {"alice": 1.0, "bob": 2.0}[place], "what is told is messages, whatever they weigh"
        assert in_cloud.messages_s == 1.5


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 10**6), width=st.sampled_from((50.0, 75.0, 500.0, 5000.0)))
def test_pairs_are_placed_for_as_little_as_planned_whatever_the_width_of_rows(seed: int, width: float) -> None:
    chance, count = random.Random(seed), 6
    rates = {stream: [chance.choice((0.01, 0.5, 1.0, 30.0)) for _ in range(count)] for stream in ("location", "photo")}
    ends = sorted({(chance.randrange(count), chance.randrange(count)) for _ in range(8)})
    ends = [(a, b) for a, b in ends if a != b] or [(0, 1)]
    streams = {side: chance.choice((("location",), ("photo",), ("location", "photo"))) for side in ("a", "b")}
    sizes = {"location": 50.0, "photo": width}
    template = TemplateTerms("near", "phones", "f1", "(near)", streams)
    terms = DocumentTerms({"near": template}, {"phones": replace(WIDE.groups["phones"], sizes=sizes)})

    group = GroupPlacement(Device(1, 1))
    pairs = {near(str(a), str(b)): (a, b) for a, b in ends}
    needs = {pair: terms.find_demands(pair, lambda device, stream: rates[stream][int(device)]) for pair in pairs}
    weighed = {pair: weigh_demands(one, weigh_streams(sizes)) for pair, one in needs.items()}
    group.change_pairs(added=weighed)

    a, b = (np.array(side, np.int32) for side in zip(*pairs.values(), strict=True))
    wanted = TemplateDemand("near", PairRows(a, b, {}, np.arange(len(a))), streams)
    facts = DeviceFacts(count, 1.0, 1.0, {name: np.array(one) for name, one in rates.items()}, sizes=sizes)
    (where,) = place_templates([wanted], facts).where
    planned = {pair: (CLOUD, *pair.ids)[int(at)] for pair, at in zip(pairs, where, strict=True)}
    live, plan = (
        sum(price_traffic(count_traffic(weighed, at), Device(1, 1), {}).values()) for at in (group.place_all(), planned)
    )
    assert live <= plan
    if streams["a"] == streams["b"]:  # otherwise a plan takes the streams of a side to go together
        assert live == plan


def test_what_rows_really_take_counts_more_than_what_their_columns_say() -> None:
    """A photo is a text, which might be a few letters."""
    terms = replace(WIDE, groups={"phones": replace(WIDE.groups["phones"], sizes={"location": 50.0, "photo": 60.0})})
    phones, pair = Phones(Placer(terms), terms=terms), near("alice", "bob")
    phones.placer.add_pairs([pair], {})
    phones.come(alice=1.0, bob=1.0)
    phones.placer.rates.hear("bob", {"photo": 0.5})
    phones.after(1.0)
    assert phones.at(pair) == "alice"
    phones.placer.note_stream_bytes("phones", "photo", CountedMessages(1, 1, 500))
    phones.after(60.0)
    assert phones.at(pair) == "alice", "one photo may be an odd one"
    phones.placer.note_stream_bytes("phones", "photo", CountedMessages(100, 1000, 5_000_000))
    for _ in range(10):
        phones.after(60.0)
    assert phones.at(pair) == "bob"
    told = phones.placer.describe_pair(pair)
    assert told is not None
    rates = {one.stream: one.rate for one in told.demands[pair]}
    assert rates["photo"] > 20 * rates["location"]
