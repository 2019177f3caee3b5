"""Retention never takes what somebody needs, takes the oldest first, and says whom it had to cut off."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.log import NEVER, Log, Piece, PieceKind
from headrace.run.logs.garbage import ChangeReader, Retention, retain, sweep

NAMES = ("a", "b", "c")
TIMES = st.integers(0, 12)


@st.composite
def logs(draw: st.DrawFn, sites: tuple[str, ...] = ("us",)) -> tuple[Log, ...]:
    """Logs whose changes have no gaps, some of two files per time, some with a base, some sharing files."""
    made = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        cuts = sorted(draw(st.sets(TIMES, min_size=1)))
        pieces = []
        for after, upto in pairwise(cuts):
            owners = draw(st.sampled_from([("shared",), (name,), (name, f"{name}2")]))
            pieces += [Piece(PieceKind.CHANGE, f"{o}-{upto}", after, upto, 1, upto + len(o)) for o in owners]
        if draw(st.booleans()):
            pieces.append(Piece(PieceKind.BASE, f"{name}-base", NEVER, draw(st.sampled_from(cuts)), 1, 50))
        made.append(Log(name, draw(st.sampled_from(sites)), cuts[-1], cuts[0], tuple(pieces)))
    return tuple(made)


READERS = st.builds(
    lambda reads: tuple(ChangeReader(f"r{n}", read) for n, read in enumerate(reads)),
    st.lists(st.dictionaries(st.sampled_from(NAMES), TIMES), max_size=4),
)
BUDGETS = st.dictionaries(st.sampled_from(("us", "eu")), st.integers(0, 60))


def trimmed(held: tuple[Log, ...], decided: Retention) -> dict[str, Log]:
    left = {log.name: log for log in held}
    for trim in decided.trims:
        log = left[trim.log]
        pieces = tuple(p for p in log.pieces if p.file not in trim.files)
        left[trim.log] = replace(log, start=trim.start, pieces=pieces)
    return left


def change_bytes(held: dict[str, Log], site: str) -> int:
    found = {p.file: p.bytes for log in held.values() if log.site == site for p in log.of_kind(PieceKind.CHANGE)}
    return sum(found.values())


@given(held=logs(sites=("us", "eu")), readers=READERS, now=TIMES, keep=TIMES, budgets=BUDGETS)
def test_nothing_is_dropped_that_a_remaining_reader_or_the_contents_need(
    held: tuple[Log, ...], readers: tuple[ChangeReader, ...], now: int, keep: int, budgets: dict[str, int]
):
    decided = retain(held, readers, now, budgets, keep)
    after = trimmed(held, decided)
    for log in held:
        left = after[log.name]
        needed = [r.read[log.name] for r in readers if r.name not in decided.cut_off and log.name in r.read]
        needed += [log.base_t] if log.base_t is not None else []
        assert all(left.start <= t for t in needed)
        assert left.start <= left.t
        kept = log.changes(left.start, log.t)
        assert left.changes(left.start, log.t) == kept, "what stays has no gaps"
        assert left.of_kind(PieceKind.BASE) == log.of_kind(PieceKind.BASE)


@given(held=logs(sites=("us", "eu")), readers=READERS, now=TIMES, keep=TIMES, budgets=BUDGETS)
def test_every_site_is_within_its_budget_or_said_to_be_over_it(
    held: tuple[Log, ...], readers: tuple[ChangeReader, ...], now: int, keep: int, budgets: dict[str, int]
):
    decided = retain(held, readers, now, budgets, keep)
    after = trimmed(held, decided)
    for site in {log.site for log in held} & budgets.keys():
        assert max(0, change_bytes(after, site) - budgets[site]) == decided.over.get(site, 0)
        if site in decided.over:
            # Nothing else could go: only what contents need is left.
            own = [log for log in after.values() if log.site == site]
            cut = [reader for reader in readers if reader.name not in decided.cut_off]
            pinned = {log for reader in cut for log in reader.read}
            free = [log for log in own if log.base_t is None and log.name not in pinned]
            assert not any(log.of_kind(PieceKind.CHANGE) for log in free)


@given(held=logs(), readers=READERS, now=TIMES, keep=TIMES, budget=st.integers(0, 60))
def test_only_readers_who_lose_changes_are_cut_off(
    held: tuple[Log, ...], readers: tuple[ChangeReader, ...], now: int, keep: int, budget: int
):
    decided = retain(held, readers, now, {"us": budget}, keep)
    after = trimmed(held, decided)
    for reader in readers:
        lost = any(t < after[log].start for log, t in reader.read.items() if log in after)
        assert lost == (reader.name in decided.cut_off)


@given(held=logs(), readers=READERS, now=TIMES, keep=TIMES)
def test_without_a_budget_what_is_old_and_read_goes_and_all_else_stays(
    held: tuple[Log, ...], readers: tuple[ChangeReader, ...], now: int, keep: int
):
    starts = {log.name: log.start for log in held}
    able = tuple(r for r in readers if all(t >= starts.get(log, t) for log, t in r.read.items()))
    after = trimmed(held, retain(held, able, now, {}, keep))
    for log in held:
        needed = [r.read[log.name] for r in able if log.name in r.read] + [now - keep]
        needed += [log.base_t] if log.base_t is not None else []
        expected = [p for p in log.of_kind(PieceKind.CHANGE) if p.upto > min(needed)]
        assert list(after[log.name].of_kind(PieceKind.CHANGE)) == expected


def history(name: str, *times: int) -> Log:
    pieces = (Piece(PieceKind.CHANGE, f"{name}{t}", t - 1, t, 1, 10) for t in times)
    return Log(name, "us", times[-1], times[0] - 1, tuple(pieces))


def test_the_slowest_reader_is_cut_off_and_named_when_the_budget_forces_it():
    log = history("a", 1, 2, 3, 4)
    readers = (
        ChangeReader("slow", {"a": 0}),
        ChangeReader("slower than it seems", {"a": 1}),
        ChangeReader("fast", {"a": 3}),
    )
    decided = retain([log], readers, now=4, budgets={"us": 30}, keep=0)
    assert decided.cut_off == ("slow",) and decided.trims[0].start == 1
    assert decided.trims[0].edit(log).drop == ("a1",)


def test_a_slow_reader_whose_loss_frees_nothing_is_spared():
    blocked = replace(
        history("b", 1, 2), pieces=(*history("b", 1, 2).pieces, Piece(PieceKind.BASE, "b", NEVER, 0, 1, 1))
    )
    readers = (ChangeReader("slow but harmless", {"b": 0}), ChangeReader("the reason", {"a": 1}))
    decided = retain([history("a", 1, 2, 3), blocked], readers, now=3, budgets={"us": 30}, keep=0)
    assert decided.cut_off == ("the reason",)


def test_the_time_to_keep_gives_way_before_a_reader_does():
    decided = retain([history("a", 1, 2, 3)], [ChangeReader("r", {"a": 2})], now=3, budgets={"us": 10}, keep=100)
    assert decided.cut_off == () and decided.trims[0].files == ("a1", "a2")


@given(
    passes=st.lists(st.tuples(st.integers(0, 5), st.sets(st.sampled_from("abc")), st.sets(st.sampled_from("abc")))),
    grace=st.integers(1, 8),
)
def test_a_file_is_deleted_when_every_sweep_of_a_grace_period_saw_it_without_a_name(
    passes: list[tuple[int, set[str], set[str]]], grace: int
):
    now = 0.0
    since: dict[str, float] = {}
    state: dict[str, float] = {}
    for step, there, named in passes:
        now += step
        listed = [("us", file, 100.0) for file in sorted(there)]
        decided = sweep(listed, frozenset(f"us/{file}" for file in named), state, now, grace)
        since = {file: since.get(file, now) for file in there - named}
        expected = {file for file, at in since.items() if now - at >= grace}
        assert {file for _, file in decided.delete} == expected
        since = {file: at for file, at in since.items() if file not in expected}
        state = dict(decided.unnamed_since)


def test_a_young_file_is_never_deleted():
    decided = sweep([("us", "f", 5.0)], frozenset(), {"us/f": 0.0}, now=100.0, grace=10.0)
    assert decided.delete == ()
