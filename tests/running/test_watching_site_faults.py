"""How the benchmark of failing sites judges which promises nothing excuses."""

from __future__ import annotations

from bench.kills_watch import Episode
from bench.sites_cut import CutSeen
from bench.sites_judge import RECOVERED_WITHIN_S, ContractPath, Trouble, count_judged_s, without_reason

LOCAL = ContractPath(frozenset({"us"}), frozenset())
JOINED = ContractPath(frozenset({"us", "eu"}), frozenset({frozenset({"us", "eu"})}))
PATHS = {"local": LOCAL, "joined": JOINED}


def link(kind: str, *sites: str) -> Trouble:
    return Trouble(kind, frozenset(sites), 100.0, 150.0)


def test_a_cut_link_excuses_only_those_whose_rows_cross_it() -> None:
    late = [Episode("local", 120.0), Episode("joined", 120.0)]
    assert without_reason(late, PATHS, [link("cut", "us", "eu")]) == late[:1]
    assert without_reason(late, PATHS, [link("cut", "us", "asia")]) == late


def test_a_killed_agent_excuses_those_who_need_its_site_until_it_must_be_well_again() -> None:
    killed = Trouble("agent", frozenset({"us"}), 100.0, 100.0)
    soon, later = [Episode("local", 100.0 + RECOVERED_WITHIN_S)], [Episode("local", 101.0 + RECOVERED_WITHIN_S)]
    assert without_reason(soon, PATHS, [killed]) == []
    assert without_reason(later, PATHS, [killed]) == later
    assert without_reason([Episode("local", 99.0)], PATHS, [killed]) == [Episode("local", 99.0)]


def test_the_coordinator_excuses_nobody() -> None:
    late = [Episode("local", 101.0), Episode("joined", 101.0)]
    assert without_reason(late, PATHS, [Trouble("coordinator", frozenset({"hq"}), 100.0, 100.0)]) == late


def test_a_contract_is_judged_while_nothing_excuses_it() -> None:
    killed = Trouble("agent", frozenset({"eu"}), 140.0, 140.0)
    troubles = [killed, link("cut", "us", "eu")]
    assert count_judged_s(LOCAL, troubles, 0.0, 400.0) == 400.0
    assert count_judged_s(JOINED, troubles, 0.0, 400.0) == 400.0 - (150.0 + RECOVERED_WITHIN_S - 100.0)
    assert count_judged_s(JOINED, troubles, 0.0, 160.0) == 100.0
    assert count_judged_s(JOINED, [killed], 150.0, 150.0 + RECOVERED_WITHIN_S) == 10.0
    assert count_judged_s(JOINED, [], 100.0, 130.0) == 30.0


def test_bytes_after_a_cut_are_compared_with_those_of_the_time_that_they_stand_for() -> None:
    """Of the cut itself, and of as long as it took until all had come."""
    assert CutSeen(cut=100.0, healed=160.0, well=190.0, bytes_before=6_000, bytes_after=4_500).share == 0.5
    assert CutSeen(cut=100.0, healed=160.0, well=None, bytes_before=6_000, bytes_after=9_000).share == 1.5
