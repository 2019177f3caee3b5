"""Estimates are total: whatever a file, a database or a measurement says, planning gives an answer in numbers."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import asdict, replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.coordinate.measured import read_measured
from headrace.declare.sql import read_query
from headrace.model.catalogue import Catalogue, MeasuredSize, SourceKind
from headrace.model.explanation import ImaginedChange
from headrace.model.plan import Plan, PlanOptions
from headrace.model.statistics import LARGEST
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.explain import change_catalogue, why
from headrace.plan.figures import plan_of
from headrace.plan.make import plan_views
from headrace.plan.share.adapt import adapt, improve, look, plan_as_measured
from headrace.plan.share.on_running import arrange_on_running
from headrace.plan.share.revalue import Measured, at_rates
from headrace.plan.share.watch import ConditionWatch
from headrace.site.folder import Folder
from headrace.testing import SCHEMA
from tests.examples import examples
from tests.plan.written import catalogue, contract, link, site

SITES = ("m1", "m2")
QUERIES = {
    "joined": "select r.id, s.label from r join s on r.k = s.k where r.n > 2",
    "three": "select r.id, s.label, t.x from r join s on r.k = s.k join t on t.k = s.k",
    "kept": "select r.k, t.name from r left join t on r.k = t.k",
    "counted": "select s.label, count(*) as c from r join s on r.k = s.k group by s.label having count(*) > 2",
    "windowed": "select window.start, k, count(*) as c from r group by window(at, '1 minute', '10 seconds'), k",
    "first": "select k, n from (select *, row_number() over (partition by k order by n, id) i from r) q where i <= 2",
    "different": "select distinct k from r where name = 'a'",
    "either": "select k from r union all select k from s",
}
MEANINGS = {name: read_query(text, SCHEMA) for name, text in QUERIES.items()}
VIEWS = {name: blocks_of(name, meaning) for name, meaning in MEANINGS.items()}

ABSURD = st.sampled_from((None, 0.0, -1.0, math.nan, math.inf, -math.inf, 1e30, 1e308, 1e-30, 1.0, 100.0))
NUMBERS = st.sampled_from((0.0, -1.0, math.nan, math.inf, 1e30, 1e-30, 1.0, 100.0))
RESULTS = sorted(blocks[-1].fingerprint for blocks in VIEWS.values())
SIZES = st.dictionaries(
    st.sampled_from((*RESULTS, "gone")),
    st.builds(MeasuredSize, ABSURD, ABSURD, st.dictionaries(st.sampled_from(("r", "s", "t", "gone")), NUMBERS)),
)


@st.composite
def projects(draw: st.DrawFn) -> Catalogue:
    sources = []
    for number, source in enumerate(SCHEMA.values()):
        columns = tuple(replace(one, width=draw(ABSURD), distinct=draw(ABSURD)) for one in source.columns or ())
        is_stream = draw(st.booleans())
        sources.append(
            replace(
                source,
                site=SITES[number % 2],
                columns=columns,
                rows=draw(ABSURD),
                rate=draw(ABSURD),
                measured_rate=draw(ABSURD),
                kind=SourceKind.STREAM if is_stream else SourceKind.TABLE,
                retention_s=3600.0 if is_stream else None,
                time="at" if is_stream else None,
            )
        )
    bandwidth = draw(st.sampled_from((None, 1e-30, 1.0, 1e6, 1e30)))
    links = [link("m1", "m2", bandwidth), link("m2", "m1", bandwidth)]
    contracts = [contract(f"c_{name}", name, draw(st.sampled_from(SITES)), 60) for name in draw(SOME)]
    shares = [("r", "n > 2", draw(st.sampled_from((0.0, 1.0, -1.0, math.nan, 2.0))))]
    return catalogue([site(name) for name in SITES], links, sources, contracts, shares)


SOME = st.lists(st.sampled_from(sorted(QUERIES)), min_size=1, max_size=3, unique=True)


@st.composite
def measurements(draw: st.DrawFn, plan: Plan) -> Measured:
    vertices = sorted(plan.graph.vertices)
    of_vertices = st.dictionaries(st.sampled_from([*vertices, "gone"]), NUMBERS, max_size=4)
    return Measured(
        1e6,
        draw(st.dictionaries(st.sampled_from(("r", "s", "t", "gone")), NUMBERS)),
        draw(of_vertices),
        draw(st.dictionaries(st.sampled_from((("m1", "m2"), ("m2", "m1"), ("x", "y"))), NUMBERS)),
        draw(st.sampled_from((frozenset[str](), frozenset(("m2",))))),
        draw(of_vertices),
        draw(NUMBERS),
        draw(SIZES),
    )


def check_plan(plan: Plan) -> None:
    """All numbers are numbers, and an independent check agrees with them."""
    text = json.dumps(plan_document(plan), allow_nan=False)
    assert check_document(json.loads(text)) == []


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(projects())
def test_every_project_is_planned_checked_and_explained(project: Catalogue):
    plan = plan_views(project, VIEWS, PlanOptions())
    check_plan(plan)
    for name in project.contracts:
        assert why(plan, name)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(projects(), st.data())
def test_every_change_can_be_imagined(project: Catalogue, data: st.DataObject):
    name = data.draw(st.sampled_from(sorted(project.contracts)))
    rates = data.draw(st.dictionaries(st.sampled_from(("r", "s", "t")), NUMBERS))
    change = ImaginedChange(data.draw(st.sampled_from((None, 1e-6, 1.0, 1e9))), None, {("m1", "m2"): 1e-30}, rates)
    check_plan(plan_views(change_catalogue(project, name, change), VIEWS, PlanOptions()))


def test_a_link_that_carries_nearly_nothing_is_planned_with_the_bandwidth_that_the_document_says():
    """A tiny rate over a tinier link takes a time that counts: plan and document must agree on it."""
    sources = [replace(source, site=SITES[number % 2]) for number, source in enumerate(SCHEMA.values())]
    contracts = [contract("c_different", "different", "m2", 60)]
    links = [link("m1", "m2", 1e-30), link("m2", "m1", None)]
    project = catalogue([site(name) for name in SITES], links, sources, contracts, [])
    check_plan(plan_views(at_rates(project, {"r": 1e-30}), VIEWS, PlanOptions()))


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(projects(), st.data())
def test_whatever_was_measured_a_project_is_planned_on_it_and_moved(project: Catalogue, data: st.DataObject):
    plan = plan_views(project, VIEWS, PlanOptions())
    measured = data.draw(measurements(plan))
    now = plan_as_measured(plan, measured)
    if not measured.down:
        json.dumps(plan_document(now), allow_nan=False)
    watched = look(ConditionWatch(), plan, replace(measured, clock_s=0.0))
    adapt(plan, measured, watched)
    for entry in plan.contracts:
        improve(plan, entry.contract, Measured(1e9), ConditionWatch())
    then = arrange_on_running(replace(now, catalogue=replace(project, sources=now.catalogue.sources)), project, VIEWS)
    if then is not None:
        check_plan(plan_of(then))


def test_two_empty_tables_are_joined():
    empty = [replace(source, site="m1", rows=0.0, rate=0.0) for source in SCHEMA.values()]
    project = catalogue([site("m1")], [], empty, [contract("c", "joined", "m1", 60)])
    plan = plan_views(project, VIEWS, PlanOptions())
    assert [entry.contract for entry in plan.contracts] == ["c"]
    check_plan(plan)


def written(folder: Path, text: str) -> Folder:
    found = Folder(folder)
    found.prepare()
    (found.root / "measured.json").write_text(text)
    return found


def test_numbers_that_nobody_can_have_measured_are_named_and_left_out(tmp_path: Path, caplog):
    text = '{"clock_s": 1.0, "rates": {"r": NaN, "s": 3.0}, "load": {"m1>m2": -1}, "blocking_s": Infinity}'
    with caplog.at_level(logging.WARNING):
        measured = read_measured(written(tmp_path, text))
    assert measured is not None
    assert (measured.rates, measured.load, measured.blocking_s) == ({"s": 3.0}, {}, 0.0)
    assert "rate of r (nan), load of m1>m2 (-1), waiting time (inf s)" in caplog.text


@given(SIZES)
@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_sizes_were_written_they_are_read_or_left_out(tmp_path: Path, sizes: dict[str, MeasuredSize]):
    text = json.dumps({"clock_s": 1.0, "sizes": {name: asdict(size) for name, size in sizes.items()}})
    measured = read_measured(written(tmp_path, text))
    assert measured is not None and measured.sizes.keys() == sizes.keys()
    numbers = [n for one in measured.sizes.values() for n in (one.rows, one.rate, *one.sources.values())]
    assert all(number is None or 0.0 <= number <= LARGEST for number in numbers)


def test_streams_that_were_quiet_for_a_minute_do_not_keep_a_project_from_starting(tmp_path: Path):
    streams = [
        replace(source, site="m1", kind=SourceKind.STREAM, retention_s=600.0, time="at") for source in SCHEMA.values()
    ]
    project = catalogue([site("m1")], [], streams, [contract("c", "joined", "m1", 60)])
    plan = plan_views(project, VIEWS, PlanOptions())
    measured = read_measured(written(tmp_path, '{"clock_s": 1.0, "rates": {"r": 0.0, "s": 0.0}}'))
    assert measured is not None
    running = plan_as_measured(plan, measured)
    assert {name: source.measured_rate for name, source in running.catalogue.sources.items()} == {
        "r": 0.0,
        "s": 0.0,
        "t": None,
    }
    now = arrange_on_running(running, project, VIEWS)
    assert now is not None and [kept.contract.name for kept in now.kept] == ["c"]
    check_plan(plan_of(now))
