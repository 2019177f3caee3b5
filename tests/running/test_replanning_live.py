"""A running service whose sources change otherwise than declared moves its work, and its views stay right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.connect.postgres.sample import Habit
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.host import ServiceHost
from headrace.coordinate.measured import read_measured
from headrace.coordinate.replanning import take_measured
from headrace.model.catalogue import MeasuredSize
from headrace.model.log import Log
from headrace.model.options import ApplyWishes
from headrace.observe.rates import Meter, VertexFlow
from headrace.plan.share.revalue import Measured
from headrace.site.learning import Learning
from tests.running.running_project import until
from tests.running.shop import NEW_CITY, NEW_POST, POST_GONE, find_rates_so_far, make_shop, run_shop

PROJECT = """
project: shop
sites: {us: {cpu: 0.001 $/core-hour}, eu: {cpu: 0.001 $/core-hour}}
links:
  - {between: [us, eu], bandwidth: 100 Mbps, latency: 10 ms, price: 1 $/GB}
sources:
  users: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: public.users}, key: [uid], rate: 200 /s}
  posts: {kind: table, at: eu, postgres: {dsn: "${EU_DSN}", table: public.posts}, key: [post], rate: 0.1 /s}
contracts:
  wall: {view: wall, at: us, freshness: 4 s}
  scores: {view: scores, at: eu, freshness: 4 s}
"""
HABITS = (
    Habit("US_DSN", 1, NEW_CITY),
    Habit("EU_DSN", 150, NEW_POST),
    Habit("EU_DSN", 20, POST_GONE),
)
HURRY = 20.0
"""How much faster than ours the replanner's clock runs, so that a minute is three seconds."""


def measured_in_a_hurry(learning: Learning, logs: Mapping[str, Log], clock_s: float) -> Measured:
    """As measured so far, as soon as all sources were seen for long enough to tell which changes more often."""
    found = take_measured(learning, logs, clock_s * HURRY)
    rates = find_rates_so_far(learning)
    is_told = {"users", "posts"} <= rates.keys() and rates["users"] < 50.0 and rates["posts"] > 50.0
    return replace(found, rates=rates) if is_told else found


def measured_with_sizes(learning: Learning, logs: Mapping[str, Log], clock_s: float) -> Measured:
    """As measured so far; what results emit is told before it was watched for a minute."""
    flows = {
        name: VertexFlow(at_once(one.rows_in), at_once(one.rows_out), one.bytes) for name, one in learning.flows.items()
    }
    hurried = replace(learning, flows=flows)
    found = take_measured(learning, logs, clock_s)
    return replace(found, sizes=take_measured(hurried, logs, clock_s).sizes)


def at_once(meter: Meter) -> Meter:
    return Meter(meter.upto, meter.rate, 1.0)


@pytest.fixture
def host(tmp_path: Path, postgres_database: Callable[[], str]) -> Iterator[ServiceHost]:
    """A project that runs, while people write."""
    environment = make_shop(tmp_path, PROJECT, postgres_database)
    with run_shop(tmp_path, environment, HABITS) as host:
        yield host


def assert_right(host: ServiceHost) -> None:
    """More than once: what a move left wrong may show only when more changes come."""
    for _ in range(3):
        found = compare_views(host.reader(), host.service.folder, host.service.environment, host.service.rounds.push_to)
        assert {one.contract for one in found.views} == {"wall", "scores"}
        assert found.equal, found


def test_work_moves_to_where_the_changes_are_and_is_not_moved_back(host: ServiceHost) -> None:
    before = host.service.running
    assert before is not None
    with host.replanning(look_every_s=0.2, measure=measured_in_a_hurry):
        until(lambda: bool(host.status()["moves"]), "something is moved")
    (move,) = host.status()["moves"]
    assert move["error"] is None
    assert set(move["contracts"]) == {"wall", "scores"}
    assert any("posts changes" in reason and "instead of 0.1" in reason for reason in move["because"])
    after = host.service.running
    assert after is not None and after.plan.graph != before.plan.graph
    assert host.folder.running() == after.plan
    assert_right(host)

    applied = host.apply(ApplyWishes())
    assert applied.prepared.change is not None and applied.prepared.change.is_nothing
    assert host.service.running is after
    assert_right(host)

    with host.replanning(look_every_s=0.2, measure=measured_with_sizes):
        until(lambda: bool(sizes_of(host)), "the size of an aggregate is measured")
    (size,) = sizes_of(host).values()
    assert size.rows in (7.0, 8.0), "there are so many cities"
    assert size.rate is not None and size.rate > 0.0
    again = host.apply(ApplyWishes(replan=True, dry_run=True)).prepared.plan
    (scores,) = (entry.facts for entry in again.blocks if entry.block.id == "scores")
    assert scores.rows == size.rows


def sizes_of(host: ServiceHost) -> Mapping[str, MeasuredSize]:
    """Those that the service has written."""
    measured = read_measured(host.folder)
    return {} if measured is None else measured.sizes
