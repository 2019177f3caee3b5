"""A document says all that a device is to do for its pairs, and each thing once."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.device_messages import CLOUD, Document, Run, SendStream, StreamShape, TakeStream
from headrace.model.types import DOUBLE, STRING
from headrace.plan.place.device_documents import DerivedTerms, DocumentTerms, GroupTerms, TemplateTerms
from headrace.plan.place.handover import Duties, TemplatePair

LOCATION = StreamShape((("lat", DOUBLE),))
PHONES = {"phones": GroupTerms({"location": LOCATION}, 1000)}
BOTH = {"a": ("location",), "b": ("location",)}
NEAR = TemplateTerms("near", "phones", "f1", "(near)", BOTH)
COUPONS = TemplateTerms("coupons", "phones", "f2", "(coupons)", {"a": ("location",)}, ("offers",))
TERMS = DocumentTerms({"near": NEAR, "coupons": COUPONS}, PHONES)


def near(a: str, b: str) -> TemplatePair:
    return TemplatePair("near", (a, b))


def test_a_host_gets_one_program_and_all_partners_by_side() -> None:
    found = TERMS.describe("1", Duties((near("1", "2"), near("1", "3"), near("4", "1")), ()))
    assert found.programs == {"f1": "(near)"}
    assert found.run == (Run("near", "f1", "a", ("2", "3"), True), Run("near", "f1", "b", ("4",), True))
    assert found.take == tuple(TakeStream("location", one, 0.0) for one in ("2", "3", "4"))
    assert not found.send
    assert found.streams == {"location": LOCATION} and found.buffer_bytes == 1000


def test_a_sender_gets_no_program() -> None:
    found = TERMS.describe("2", Duties((), (near("1", "2"), near("2", "3"))))
    assert found.send == (SendStream("location", 0.0),)
    assert not found.programs and not found.run and not found.take


def test_a_device_without_duties_knows_the_streams_of_its_group() -> None:
    assert TERMS.describe("9", Duties((), ())) == Document(0, streams={"location": LOCATION}, buffer_bytes=1000)
    cars = {"cars": GroupTerms({"speed": LOCATION}, 2000)}
    terms = replace(TERMS, groups={**PHONES, **cars}, group_of={"9": "cars"})
    assert terms.describe("9", Duties((), ())) == Document(0, streams={"speed": LOCATION}, buffer_bytes=2000)


def test_a_template_of_one_side_takes_its_tables_from_the_cloud() -> None:
    found = TERMS.describe("1", Duties((TemplatePair("coupons", ("1",)),), ()))
    assert found.run == (Run("coupons", "f2", "a", (), True),)
    assert found.take == (TakeStream("offers", CLOUD, 0.0),)


def test_the_most_demanding_pair_says_how_often() -> None:
    slow = TemplateTerms("near", "phones", "f1", "(near)", BOTH, every={"a": 10.0})
    pairs = {near("1", "2"): {"b": 5.0}, near("3", "2"): {"b": 60.0}}
    terms = DocumentTerms({"near": slow}, PHONES, pairs)
    sender = terms.describe("2", Duties((), tuple(pairs)))
    assert sender.send == (SendStream("location", 5.0),)
    host = terms.describe("2", Duties(tuple(pairs), ()))
    assert host.take == (TakeStream("location", "1", 10.0), TakeStream("location", "3", 10.0))
    demands = terms.find_demands(near("1", "2"), lambda device, stream: 2.0)
    assert [(one.device, one.rate) for one in demands] == [("1", 100_000), ("2", 200_000)]
    assert terms.find_most_wanted("2", "location", tuple(pairs)) == 5.0


def test_a_stream_that_is_slower_than_asked_for_is_sent_as_it_comes() -> None:
    terms = DocumentTerms({"near": TemplateTerms("near", "phones", "f", "", BOTH, every={"a": 10.0})}, PHONES)
    rates = {"1": 0.01, "2": 0.5}
    found = terms.find_demands(near("1", "2"), lambda device, stream: rates[device])
    assert [one.rate for one in found] == [10_000, 500_000]


def test_a_pair_of_a_device_with_itself_runs_once() -> None:
    found = TERMS.describe("1", Duties((near("1", "1"),), ()))
    assert found.run == (Run("near", "f1", "a", ("1",), True),)
    assert not found.take


SPOT = StreamShape((("name", STRING),))
DERIVED = {
    "phones": GroupTerms({"location": LOCATION, "spot": SPOT}, 1000, {"spot": DerivedTerms("f3", "(spot)", ("inns",))})
}
SPOTS = {"a": ("spot",), "b": ("spot",)}
LEVELS = DocumentTerms({"near": TemplateTerms("near", "phones", "f1", "(near)", SPOTS), "coupons": COUPONS}, DERIVED)


def test_a_derived_stream_is_computed_wherever_its_pairs_run() -> None:
    spot = Run("spot", "f3", "a", (), False)
    inns = TakeStream("inns", CLOUD, 0.0)
    sender = LEVELS.describe("2", Duties((), (near("1", "2"),)))
    assert (sender.programs, sender.run, sender.send) == ({"f3": "(spot)"}, (spot,), (SendStream("spot", 0.0),))
    assert sender.take == (inns,)
    host = LEVELS.describe("1", Duties((near("1", "2"), near("3", "1")), ()))
    assert host.programs == {"f1": "(near)", "f3": "(spot)"}
    assert host.run == (spot, Run("near", "f1", "a", ("2",), True), Run("near", "f1", "b", ("3",), True))
    assert host.take == (TakeStream("spot", "2", 0.0), TakeStream("spot", "3", 0.0), inns)
    assert not host.send and host.derived == {"spot": "f3"}


def test_a_device_whose_pairs_read_none_derives_nothing() -> None:
    found = LEVELS.describe("1", Duties((TemplatePair("coupons", ("1",)),), ()))
    assert [one.template for one in found.run] == ["coupons"] and found.take == (TakeStream("offers", CLOUD, 0.0),)
