"""Where views of several sites are compared with their queries, and what sites give each other for that."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from headrace.app.planning import plan_project
from headrace.coordinate.compare.across import choose_site, find_columns, find_given, may_be_at, say_nowhere
from headrace.coordinate.compare.moment import query_of
from headrace.coordinate.compare.sources import sources_of
from headrace.coordinate.guarded_texts import find_guarded, guard_event, guard_failing, guard_status
from headrace.model.catalogue import Catalogue, Stays
from headrace.model.events import ContractLate, TroubleBegan, UnknownEvent
from headrace.model.plan import Plan, PlanOptions
from headrace.model.trouble import Trouble, TroubleKind

PROJECT = """
project: three
sites: {a: {}, b: {}, c: {}}
links:
  - {between: [a, b], bandwidth: 100 Mbps, latency: 10 ms}
  - {between: [b, c], bandwidth: 100 Mbps, latency: 10 ms}
  - {between: [a, c], bandwidth: 100 Mbps, latency: 10 ms}
sources:
  one: {kind: table, at: a, key: [id], columns: {id: bigint, x: bigint, y: string}, rows: 100, rate: 1}
  two: {kind: table, at: b, key: [id], columns: {id: bigint, x: bigint, y: string}, rows: 100, rate: 1}
  three: {kind: table, at: c, key: [id], columns: {id: bigint, x: bigint, y: string}, rows: 100, rate: 1}
contracts:
  alone: {view: alone, at: a, freshness: 60 s}
  both: {view: both, at: c, freshness: 60 s}
  elsewhere: {view: both, at: a, freshness: 60 s}
  counted: {view: counted, at: b, freshness: 60 s}
"""
VIEWS = {
    "alone": "SELECT id, x FROM one",
    "both": "SELECT one.x, two.y FROM one JOIN two ON one.id = two.id",
    "counted": "SELECT one.x, count(*) AS n FROM one JOIN three ON one.id = three.id GROUP BY one.x",
}
SITES = st.sets(st.sampled_from("abc"), min_size=1)
STAYS = st.none() | st.builds(lambda sites, free: Stays(tuple(sorted(sites)), free), SITES, st.booleans())
SECRET = b"x" * 32


@cache
def plan_three() -> Plan:
    with TemporaryDirectory() as folder:
        return planned(Path(folder), PROJECT)


def planned(folder: Path, project: str) -> Plan:
    (folder / "views").mkdir()
    for name, query in VIEWS.items():
        (folder / "views" / f"{name}.sql").write_text(query)
    (folder / "headrace.yml").write_text(project)
    return plan_project(folder, {}, PlanOptions())


def bind(catalogue: Catalogue, stays: dict[str, Stays | None]) -> Catalogue:
    return replace(
        catalogue, sources={name: replace(one, stays=stays[name]) for name, one in catalogue.sources.items()}
    )


@given(stays=st.fixed_dictionaries(dict.fromkeys(("one", "two", "three"), STAYS)))
def test_rows_are_given_where_they_are_needed_and_nowhere_else(stays: dict[str, Stays | None]) -> None:
    plan = plan_three()
    catalogue = bind(plan.catalogue, stays)
    given_rows = {site: find_given(catalogue, plan.contracts, site) for site in "abc"}
    needed = set()
    for one in plan.contracts:
        read = sources_of(query_of(catalogue, one.view))
        allowed = {site for site in "abc" if all(may_be_at(stays[name], site) for name in read)}
        site = choose_site(catalogue, one)
        assert (site in allowed) if allowed else (site is None)
        if site is None:
            assert "no site may hold all rows" in say_nowhere(catalogue, one)
            continue
        assert site == one.site or one.site not in allowed
        needed |= {(catalogue.sources[name].site, site, f"source {name}") for name in read}
        needed.add((one.site, site, f"contract {one.contract}"))
        assert read <= find_columns(catalogue, plan.contracts, site).keys()
    found = {(giver, one.site, one.name) for giver, some in given_rows.items() for one in some}
    assert found == {one for one in needed if one[0] != one[1]}


def test_texts_that_may_name_rows_go_out_as_a_hash(tmp_path: Path) -> None:
    bound = PROJECT.replace("at: a, key", "at: a, stays: [a], key").replace("at: c, freshness", "at: a, freshness")
    part = planned(tmp_path, bound.replace("  counted: {view: counted, at: b, freshness: 60 s}\n", "")).at_site("a")
    guarded = find_guarded(part)
    what = "1 / x: division by zero, in row id = 17 of one"
    halted = TroubleBegan(5, TroubleKind.ROW, "alone", what)
    told = guard_event(halted, guarded, SECRET)
    assert "17" not in told.text and "alone" in told.text and told.about == halted.about
    assert told == guard_event(halted, guarded, SECRET) != guard_event(halted, guarded, b"y" * 32)
    assert told != guard_event(replace(halted, what=what.replace("17", "18")), guarded, SECRET)
    late = ContractLate(5, "alone", 9.0, 5.0)
    assert guard_event(late, guarded, SECRET) == late, "numbers tell nothing of rows"
    link = TroubleBegan(5, TroubleKind.LINKS, "", "the link from a to b is slow")
    assert guard_event(link, guarded, SECRET) == link
    unknown = guard_event(UnknownEvent(5, "new", {"what": what}), guarded, SECRET)
    assert isinstance(unknown, UnknownEvent) and unknown.fields == {}
    assert "17" not in guard_failing({"alone": what}, guarded, SECRET)["alone"]
    status = {
        "contracts": [
            {"id": "alone", "state": "failing", "reason": what},
            {"id": "both", "state": "late", "reason": f"it is 9 s behind; the promise is 5 s: {what}"},
        ],
        "troubles": [Trouble(what, 5.0, "").to_json()],
    }
    seen = guard_status(status, {"row:alone": Trouble(what, 5.0, "")}, guarded, SECRET)
    assert seen is not None and "17" not in str(seen) and "17" in str(status)
    assert seen["contracts"][1]["reason"].startswith("it is 9 s behind; the promise is 5 s: ")


def test_who_writes_too_much_for_a_feed_is_told_at_its_site_alone(tmp_path: Path) -> None:
    feeds = "feeds:\n  home: {at: a, events: {source: one, producer: y, time: at}, follows: api}\n"
    columns = "columns: {at: timestamp, "
    bound = PROJECT.replace("at: a, key", "at: a, stays: [a], key").replace("columns: {", columns, 1) + feeds
    guarded = find_guarded(planned(tmp_path, bound).at_site("a"))
    shed = {"id": "home", "shed": ["carl"]}, {"id": "other", "shed": ["dora"]}
    status = {"contracts": [], "troubles": [], "feeds": list(shed)}
    seen = guard_status(status, {}, guarded, SECRET)
    assert seen is not None and "carl" not in str(seen) and "dora" in str(seen)
    behind = TroubleBegan(5, TroubleKind.FEED, "home", "the entry of carl is too long")
    assert "carl" not in guard_event(behind, guarded, SECRET).text


def test_a_site_whose_sources_stay_nowhere_says_everything() -> None:
    guarded = find_guarded(plan_three().at_site("a"))
    halted = TroubleBegan(5, TroubleKind.ROW, "alone", "in row id = 17 of one")
    assert guard_event(halted, guarded, SECRET) == halted
