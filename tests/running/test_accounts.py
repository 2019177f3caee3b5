"""What is noted about pushes: costs, rows that came late, and who goes first."""

from __future__ import annotations

from contextlib import closing
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.ledger.sqlite import open_sqlite
from headrace.meaning.zset import ZSet
from headrace.model.event_wire import EventsAsked
from headrace.model.events import Event, ServiceStarted
from headrace.model.log import Commit, Edit, PieceKind
from headrace.model.push_events import DatasetsPushed, DatasetsStored, LogsKeptUp, Use
from headrace.observe.cost import ChargedAccounts, charge_event
from headrace.run.logs.upkeep import Upkeep
from headrace.run.schedule.next_push import Due
from headrace.site.accounts import Accounts, account_notes
from headrace.site.auditor import Auditor, WatchedContract
from headrace.site.folder import Folder
from headrace.site.journal import Journal
from tests.run.test_engine import world_of

SECOND = 1_000_000

USES = st.builds(Use, *([st.floats(0, 1e6)] * 4))
EVENTS = st.one_of(
    st.builds(
        DatasetsPushed, at=st.integers(1, 9), pushes=st.just(1), used=st.dictionaries(st.sampled_from("abc"), USES)
    ),
    st.builds(
        DatasetsStored, at=st.integers(1, 9), bytes=st.just(1), kept_s=st.just(1.0), used=st.just({"a": Use(cost=0.5)})
    ),
    st.builds(LogsKeptUp, at=st.integers(1, 9), pieces=st.just(2), used=st.dictionaries(st.sampled_from("ab"), USES)),
    st.builds(ServiceStarted, at=st.integers(1, 9), pid=st.just(1)),
)


def test_a_forced_contract_goes_after_all_others() -> None:
    forced = Due("a", "v", 1, deadline=10, late=False, forced=True)
    late = Due("b", "w", 1, deadline=5, late=True, gives_way=True)
    on_time = Due("c", "x", 1, deadline=99, late=False)
    assert sorted((forced, late, on_time), key=lambda due: due.urgency) == [on_time, late, forced]


def test_rows_that_come_later_than_promised_are_counted_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    ledger, store = folder.ledger(), folder.store()
    lease = ledger.acquire("service", "here", 30)
    auditor = Auditor(ledger, lambda: 100 * SECOND)
    ledger.commit(lease, Commit((Edit("view", None, 0, start=0, site="eu"),)))
    auditor.watch((WatchedContract("sales", "view", 10.0, 0.5, ()),))
    rows = pa.table({"__t": [80 * SECOND, 95 * SECOND, 95 * SECOND], "__w": [1, 1, -2]})
    piece = store.write("eu", rows, "view").as_piece(PieceKind.CHANGE, 0, 95 * SECOND, 3)
    ledger.commit(lease, Commit((Edit("view", 0, 95 * SECOND, (piece,)),)))
    for _ in range(2):
        auditor.judge(store, {"view"}, 100 * SECOND)
        record = auditor.records["sales"]
        assert (record.rows, record.late_rows, record.penalty) == (4, 1, 0.5)
    ledger.close()


@given(st.lists(st.tuples(st.lists(EVENTS, max_size=3), st.sampled_from(["go on", "look", "kill"])), max_size=12))
def test_accounts_are_the_sum_over_all_events_whenever_the_service_is_killed(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[list[Event], str]]
) -> None:
    """The oracle charges the whole history at once."""
    with closing(open_sqlite(tmp_path_factory.mktemp("ledger") / "ledger.db")) as ledger:
        lease = ledger.acquire("service", "here", 1e9)
        accounts = Accounts(ledger, lambda: 0)
        for events, then in history:
            ledger.commit(lease, Commit(events=tuple(events)))
            match then:
                case "look":
                    ledger.commit(lease, Commit(notes=account_notes(accounts.catch_up())))
                case "kill":
                    accounts = Accounts(ledger, lambda: 0)
                    accounts.resume()
        all_ = ledger.events(EventsAsked(limit=1000, routine=True))
        whole = reduce(charge_event, all_, ChargedAccounts())
        assert accounts.catch_up().accounts == whole.accounts
        accounts.resume()
        assert accounts.catch_up() == ChargedAccounts(whole.accounts, accounts.charged.upto)


def test_contracts_are_charged_for_the_upkeep_of_what_serves_them(tmp_path: Path) -> None:
    world = world_of(["SELECT r.k, count(*) AS c FROM r GROUP BY r.k"], "m1", tmp_path)
    journal = Journal()
    accounts = Accounts(world.ledger, lambda: 7, journal)
    accounts.follow(world.plan)
    world.engine.load()
    upkeep, seconds, pieces = Upkeep(world.engine), 0.0, 0
    for number in range(40):
        world.capture({"r": ZSet([((number, 1, 1, 1.0, None, "a", None, None, True), 1)])})
        world.engine.push(list(world.program.tasks), world.now)
        while done := upkeep.step():
            accounts.kept_up(done)
            seconds, pieces = seconds + sum(one.seconds for one in done), pieces + len(done)
    with journal.committing() as events:
        told = [one for one in events if isinstance(one, LogsKeptUp)]
    assert pieces and sum(one.pieces for one in told) == pieces
    assert accounts.upkeep_s == pytest.approx(seconds) == sum(one.took_s for one in told)
    (contract,) = (one.contract for one in world.plan.contracts)
    charged = sum(one.used[contract].core_s for one in told if contract in one.used)
    assert 0 < charged <= seconds * 1.000001
