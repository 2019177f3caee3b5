"""What whoever coordinates sees of sites that joined from elsewhere: how far their clocks are off."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinate.agent_reports import LARGE_SKEW, AgentReport, AwaitedSites, merge_reports, name_clocks
from headrace.model.joining import JoinedAgent
from headrace.run.capture.clock import measure_skew
from tests.run.load.test_transition import make_posts

SAID: dict[str, Any] = {"pid": 7}


def told(report: AgentReport, now: float = 100.0) -> list[dict[str, Any]]:
    agents = {"eu": JoinedAgent("instance", "10.0.0.2:7433", "1.0")}
    found: list[dict[str, Any]] = merge_reports(AwaitedSites(("eu",), agents, 1.0), {"eu": report}, {}, now)["troubles"]
    return found


@given(
    ahead=st.integers(-10_000_000, 10_000_000),
    trips=st.lists(st.tuples(st.integers(0, 4_000_000), st.integers(0, 4_000_000)), min_size=1, max_size=5),
)
def test_a_clock_is_said_to_be_off_only_if_it_is(ahead: int, trips: list[tuple[int, int]]) -> None:
    """Answers that take long say little, however far off they seem to be."""
    report, asked = AgentReport(), 50_000_000
    for there, back in trips:
        skew = measure_skew(asked, asked + there + ahead, asked + there + back)
        report = report.hear(SAID, skew, asked / 1e6)
        asked += 1_000_000
    troubles = told(report)
    assert not troubles or abs(ahead) > LARGE_SKEW
    if abs(ahead) > LARGE_SKEW + min(there + back for there, back in trips):
        assert "ahead of" in troubles[0]["what"] if ahead > 0 else "behind" in troubles[0]["what"]
        assert troubles[0]["since"] >= 50.0


def test_a_clock_that_is_put_right_is_no_trouble_any_more() -> None:
    report = AgentReport().hear(SAID, measure_skew(0, 2_000_000, 1000), 10.0)
    report = report.hear(SAID, measure_skew(1_000_000, 3_000_000, 1_001_000), 11.0)
    assert [one["since"] for one in told(report)] == [10.0], "it lasts since it was seen first"
    assert told(report.fell_silent(12.0, "cut off"), now=13.0) != [], "until it answers again"
    assert told(report.hear(SAID, measure_skew(5_000_000, 5_000_500, 5_001_000), 15.0)) == []


def test_a_late_contract_whose_rows_come_from_several_sites_names_the_clock_that_is_off() -> None:
    plan = make_posts("100 Mbps")
    late = {"id": "kinds", "state": "late", "reason": "it is 22 s behind; the promise is 20 s"}
    kept = {"id": "kinds", "state": "kept"}
    right = AgentReport().hear(SAID, measure_skew(0, 500, 1000), 10.0)
    behind = AgentReport().hear(SAID, measure_skew(5_000_000, 2_000_500, 5_001_000), 10.0)
    contracts = [late, kept]
    name_clocks(contracts, plan, {"us": right, "eu": right})
    assert late["reason"] == "it is 22 s behind; the promise is 20 s"
    name_clocks(contracts, plan, {"us": behind, "eu": right})
    clock = 'the clock of site "us" is 3 s behind that of whoever coordinates'
    assert late["reason"] == f"it is 22 s behind; the promise is 20 s; {clock}"
    assert kept == {"id": "kinds", "state": "kept"}
