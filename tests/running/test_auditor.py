"""What the auditor sees when its process stood still, and when our clock is put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.model.errors import ConnectError
from headrace.model.log import Commit, CommitMark, Edit, Lease
from headrace.model.notes import CapturedUpTo, ChargedUpTo, ContractAccount, CopyReached, SourceMissed
from headrace.observe.cost import Account, ChargedAccounts
from headrace.site.auditor import Auditor, KeptLook, WatchedContract
from headrace.site.deliver.progress import CopyProgress, say_writing

SECOND = 1_000_000
NOON = 1_800_000_000 * SECOND
FRESHNESS_S = 4.0


class Place:
    """A view over one database, a clock that is turned by hand, and an auditor."""

    def __init__(self, ledger: SqlLedger) -> None:
        self.ledger = ledger
        self.now = NOON
        self.lease: Lease = ledger.acquire("service", "here", 1e9)
        ledger.commit(self.lease, Commit((Edit("view", None, NOON, start=NOON, site="eu"),)))
        self.auditor = Auditor(ledger, lambda: self.now)
        self.auditor.watch((WatchedContract("sales", "view", FRESHNESS_S, 0.0, ("shop",), frozenset(("orders",))),))

    def captured(self, t: int, committed_at: int) -> None:
        note = CapturedUpTo("shop", t, committed_at)
        moment = CommitMark("shop", t, committed_at)
        self.ledger.commit(self.lease, Commit(notes=(note,), commit_marks=(moment,)))

    def pushed(self, t: int) -> None:
        self.ledger.commit(self.lease, Commit((Edit("view", self.ledger.times()["view"], t),)))

    @property
    def episodes(self) -> int:
        return self.auditor.records["sales"].episodes


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with closing(open_sqlite(tmp_path / "ledger.db")) as ledger:
        yield Place(ledger)


def test_a_push_after_a_pause_does_not_hide_how_late_the_view_was(place: Place) -> None:
    place.captured(NOON + SECOND, NOON + SECOND)
    place.auditor.audit(place.lease, ChargedAccounts())
    place.now += 30 * SECOND
    place.auditor.look_before_pushing()
    place.captured(NOON + 30 * SECOND, NOON + 30 * SECOND)
    place.pushed(NOON + 30 * SECOND)
    place.auditor.audit(place.lease, ChargedAccounts())
    assert place.episodes == 1
    assert place.auditor.records["sales"].violated_s == 25.0
    assert place.auditor.lags_s["sales"] < 1.0


def test_a_look_that_cannot_be_kept_is_shown_all_the_same(place: Place) -> None:
    place.captured(NOON + SECOND, NOON + SECOND)
    place.auditor.audit(place.lease, ChargedAccounts())
    place.now += 10 * SECOND
    with place.ledger._database.read() as session:
        session.rows("PRAGMA query_only = ON")  # nothing can be written, as on a full disk
    with pytest.raises(ConnectError, match="cannot be used"):
        place.auditor.audit(place.lease, ChargedAccounts())
    assert place.auditor.looked is not None and place.auditor.looked.contracts["sales"].lag_s == 9.0


def test_who_looked_a_moment_ago_does_not_look_again_before_pushing(place: Place) -> None:
    place.auditor.audit(place.lease, ChargedAccounts())
    place.captured(NOON + SECOND, NOON - 100 * SECOND)
    place.now += SECOND
    place.auditor.look_before_pushing()
    assert place.auditor.lags_s["sales"] == 0.0


def test_what_was_measured_before_a_push_says_nothing_after_it(place: Place) -> None:
    place.captured(NOON + SECOND, NOON + SECOND)
    place.now += 10 * SECOND
    place.auditor.audit(place.lease, ChargedAccounts())
    assert place.auditor.lags_of(place.ledger.times()) == {"sales": 9.0}
    place.pushed(NOON + SECOND)
    assert place.auditor.lags_of(place.ledger.times()) == {}
    assert place.auditor.lags_s == {"sales": 9.0}


def test_when_our_clock_is_put_back_lag_counts_from_what_came_since(place: Place) -> None:
    """Times go on from the last one; commit times are by the clock as it is."""
    place.captured(NOON + SECOND, NOON + SECOND)
    place.now = NOON - 3600 * SECOND
    assert place.auditor.measure()["sales"] == 0.0
    for second in (1, 2, 3):
        place.captured(NOON + SECOND + second, place.now + second * SECOND)
    place.now += 10 * SECOND
    assert place.auditor.measure()["sales"] == 9.0
    place.auditor.audit(place.lease, ChargedAccounts())
    place.now += 5 * SECOND
    place.auditor.audit(place.lease, ChargedAccounts())
    assert place.episodes == 1
    place.pushed(NOON + SECOND + 3)
    assert place.auditor.measure()["sales"] == 12.0


def test_a_view_is_as_late_as_the_changes_that_its_source_missed(place: Place) -> None:
    """Until the table has been read again, however far its spool is."""
    for second in range(1, 21):
        place.captured(NOON + second * SECOND, NOON + second * SECOND)
    place.now = NOON + 20 * SECOND
    place.pushed(place.now)
    assert place.auditor.measure()["sales"] < 1.0
    place.ledger.commit(
        place.lease, Commit(notes=(SourceMissed("orders", NOON + 3 * SECOND), SourceMissed("others", 0)))
    )
    assert place.auditor.measure()["sales"] == 16.0
    place.ledger.commit(place.lease, Commit(notes=(SourceMissed.remove("orders"),)))
    assert place.auditor.measure()["sales"] < 1.0


def test_a_view_that_has_to_be_loaded_anew_is_as_late_as_it_was(place: Place) -> None:
    place.captured(NOON + SECOND, NOON + SECOND)
    place.auditor.audit(place.lease, ChargedAccounts())
    place.ledger.commit(place.lease, Commit(forget=("view",)))
    place.now += 30 * SECOND
    place.auditor.audit(place.lease, ChargedAccounts())
    assert place.auditor.measure()["sales"] == 29.0
    assert place.episodes == 1
    assert place.auditor.lags_of(place.ledger.times()) == {}


def test_the_lag_of_a_contract_that_delivers_is_that_of_its_copy_and_pushes_go_by_the_view(place: Place) -> None:
    copies = {"sales": NOON}
    place.auditor.copies = lambda: copies
    place.auditor.watch(
        (WatchedContract("sales", "view", FRESHNESS_S, 0.0, ("shop",), frozenset(("orders",)), delivers=True),)
    )
    for second in range(1, 31):
        place.captured(NOON + second * SECOND, NOON + second * SECOND)
    place.now = NOON + 30 * SECOND
    place.pushed(place.now)
    place.auditor.audit(place.lease, ChargedAccounts())
    assert place.auditor.lags_s == {"sales": 29.0} and place.episodes == 1
    assert place.auditor.lags_of(place.ledger.times()) == {"sales": 0.0}
    copies["sales"] = place.now
    place.auditor.audit(place.lease, ChargedAccounts())
    assert place.auditor.lags_s == {"sales": 0.0}


def test_without_a_service_the_age_of_a_copy_is_known_from_the_last_look(place: Place) -> None:
    place.auditor.copies = lambda: {"sales": NOON}
    watched = WatchedContract("sales", "view", FRESHNESS_S, 0.0, ("shop",), frozenset(("orders",)), delivers=True)
    place.auditor.watch((watched,))
    for second in range(1, 11):
        place.captured(NOON + second * SECOND, NOON + second * SECOND)
    place.now = NOON + 10 * SECOND
    place.pushed(place.now)
    place.auditor.audit(place.lease, ChargedAccounts())
    later = Auditor(place.ledger, lambda: place.now)
    later.watch((watched,))
    assert later.measure() == {"sales": 9.0}
    unknown = Auditor(place.ledger, lambda: place.now)
    unknown.watch((replace(watched, contract="never delivered"),))
    assert unknown.measure() == {}


def test_a_copy_that_is_written_for_long_says_where_it_hangs_and_how_long_deliveries_take() -> None:
    copy = CopyProgress('table "sales"')
    assert say_writing(copy, 100.0) is None and say_writing(copy.begin(99.9), 100.0) is None
    assert say_writing(copy.begin(70.0), 100.0) == 'table "sales" has not answered the delivery for 30 s'
    slow = copy.begin(10.0).reach(7, 14.0)
    assert (slow.t, slow.takes_s, slow.begun_s) == (7, 4.0, None)
    assert slow.begin(20.0).reach(8, 20.1).takes_s == pytest.approx(3.6)


def test_a_look_writes_again_only_what_is_not_as_it_was() -> None:
    """Most looks find what the one before found: they write the numbers that are shown, and no more."""
    charged = ChargedAccounts({"sales": Account(NOON), "rent": Account(NOON)}, upto=7)
    kept = KeptLook({}, {"sales": NOON}, charged)
    assert {one.name for one in kept.notes_since(KeptLook())} == {
        CopyReached("sales", NOON).name,
        ContractAccount("sales", "").name,
        ContractAccount("rent", "").name,
        ChargedUpTo(7).name,
    }
    assert kept.notes_since(kept) == ()
    later = replace(kept, charged=replace(charged, accounts={**charged.accounts, "rent": Account(NOON, cost=1.0)}))
    assert [one.name for one in later.notes_since(kept)] == [ContractAccount("rent", "").name]


def test_records_that_a_look_changed_are_kept_at_once(place: Place) -> None:
    for _ in range(12):
        place.now += SECOND
        place.captured(place.now, place.now)
        place.auditor.audit(place.lease, ChargedAccounts())
        restarted = Auditor(place.ledger, lambda: place.now)
        restarted.resume()
        assert restarted.records == place.auditor.records
    assert place.episodes == 1


def test_rows_of_a_site_whose_clock_is_ahead_count_as_lacking(place: Place) -> None:
    """The view gets them when our clock has got there."""
    reach: dict[str, int] = {}
    place.auditor.find_reach = lambda: reach
    shared = WatchedContract("sales", "view", FRESHNESS_S, 0.0, ("shop",), imports=frozenset(("orders@us",)))
    local = WatchedContract("local", "view", FRESHNESS_S, 0.0, ("shop",))
    place.auditor.watch((shared, local))
    place.captured(NOON, NOON)
    place.now = NOON
    place.pushed(place.now)
    assert place.auditor.measure() == {"sales": 0.0, "local": 0.0}
    reach["orders@us"] = NOON - SECOND
    assert place.auditor.measure()["sales"] == 0.0
    reach["orders@us"] = NOON + 60 * SECOND
    assert place.auditor.measure() == {"sales": 60.0, "local": 0.0}
    assert place.auditor.lags_of({"view": NOON})["sales"] == 0.0, "pushing more often does not help"


def test_a_capture_that_has_fallen_behind_its_database_is_found(place: Place) -> None:
    place.now = NOON + 10 * SECOND
    place.captured(NOON + 9 * SECOND, NOON + 9 * SECOND)
    place.auditor.audit(place.lease, ChargedAccounts())
    assert not place.auditor.finds_captures_behind
    place.pushed(NOON + 9 * SECOND)
    place.captured(NOON + 10 * SECOND, NOON + 2 * SECOND)  # what was committed eight seconds ago comes only now
    place.auditor.audit(place.lease, ChargedAccounts())
    assert place.auditor.finds_captures_behind


def test_marks_of_commits_are_forgotten_where_there_are_no_contracts(place: Place) -> None:
    place.captured(NOON + SECOND, NOON + SECOND)
    place.auditor.watch(())
    place.auditor.forget_commit_marks(place.lease)
    assert place.ledger.commit_marks("shop", NOON, 10), "a contract that is being loaded may start a little earlier"
    place.now += 3600 * SECOND
    place.auditor.forget_commit_marks(place.lease)
    assert not place.ledger.commit_marks("shop", NOON, 10)
