"""How the benchmark of failing sites judges which promises nothing excuses."""

from __future__ import annotations

from bench.kills_watch import Episode
from bench.sites_faults import RECOVERED_WITHIN_S, ContractPath, Trouble, without_reason

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
