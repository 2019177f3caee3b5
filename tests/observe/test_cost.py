"""What contracts cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.catalogue import Catalogue
from headrace.model.event_wire import NumberedEvent
from headrace.model.push_events import DatasetsPushed
from headrace.observe.audit import Record
from headrace.observe.cost import SECOND, Account, ChargedAccounts, Usage, charge_event, price_of, share_out
from headrace.observe.money import paid_per_hour
from headrace.plan.price import Promise, bill_of, serves, tariff_of
from tests.plan.share.projects import plan_for, shop, wanted

HOUR = 3600 * SECOND


def charge_accounts(
    accounts: Mapping[str, Account],
    catalogue: Catalogue,
    serving: Mapping[str, tuple[str, ...]],
    usages: Iterable[Usage],
    now: int,
) -> Mapping[str, Account]:
    """Accounts after a push that used all of this."""
    pushed = DatasetsPushed(now, 1, used=share_out(catalogue, serving, usages))
    return charge_event(ChargedAccounts(accounts), NumberedEvent(1, pushed)).accounts


def test_cores_links_and_disks_have_their_prices():
    assert price_of(shop(), Usage("v", "us", core_s=3600)) == pytest.approx(0.34)
    assert price_of(shop(), Usage("v", "us", origin="eu", sent=1e9)) == pytest.approx(0.02)
    assert price_of(shop(), Usage("v", "us", kept=1e9 * 30 * 86400)) == pytest.approx(0.11)


def test_what_is_shared_is_split_by_whom_it_serves():
    usages = [Usage("shared", "us", core_s=7200), Usage("mine", "us", core_s=3600), Usage("idle", "us", core_s=1)]
    found = charge_accounts({}, shop(), {"shared": ("a", "b"), "mine": ("a",)}, usages, 0)
    assert {name: account.cost for name, account in found.items()} == {
        "a": pytest.approx(0.68),
        "b": pytest.approx(0.34),
    }
    assert found["a"].core_s == 7200
    assert paid_per_hour(found["b"], Record(), 2 * HOUR) == pytest.approx(0.17)
    assert paid_per_hour(found["b"], Record(penalty=0.34), 2 * HOUR) == pytest.approx(0.34)
    assert paid_per_hour(found["b"], Record(), 0) is None


VERTICES = ("v", "w", "x")
used = st.builds(Usage, st.sampled_from(VERTICES), st.just("us"), st.floats(0, 1e4), st.just("eu"), st.floats(0, 1e12))
served = st.fixed_dictionaries(
    {name: st.sets(st.sampled_from("abc"), min_size=1).map(lambda found: tuple(sorted(found))) for name in VERTICES}
)


@given(st.lists(used, max_size=20), served)
def test_all_accounts_together_are_all_that_was_used(usages: list[Usage], serving: dict[str, tuple[str, ...]]):
    found = charge_accounts({}, shop(), serving, usages, 0)
    total = sum(price_of(shop(), usage) for usage in usages)
    assert sum(account.cost for account in found.values()) == pytest.approx(total)


@given(st.lists(used, max_size=10), st.lists(used, max_size=10))
def test_accounts_go_on_after_a_restart(before: list[Usage], after: list[Usage]):
    serving = dict.fromkeys(VERTICES, ("a", "b"))
    first = charge_accounts({}, shop(), serving, before, 0)
    restarted = {name: Account.from_json(account.to_json()) for name, account in first.items()}
    assert charge_accounts(restarted, shop(), serving, after, 0) == charge_accounts(first, shop(), serving, after, 0)


def test_a_plan_that_runs_as_planned_costs_what_was_planned():
    plan = plan_for(wanted("bought", "asia"), wanted("by_country", "us"))
    tariff = tariff_of(plan.catalogue)
    promises = [Promise(entry.contract, entry.vertex, entry.batch_s, entry.freshness_s) for entry in plan.contracts]
    accounts: Mapping[str, Account] = {}
    for name, kept_for in serves(plan.graph, promises).items():
        bill = bill_of(plan.graph, tariff, {name: kept_for})
        (origin, sent), site = next(iter(bill.link.items()), (("", ""), 0.0)), plan.graph.vertices[name].site
        hour = [3600 * amount for amount in (bill.cpu.get(site, 0.0), sent, bill.disk.get(site, 0.0))]
        usage = Usage(name, site, hour[0], origin[0], hour[1], hour[2])
        contracts = {name: tuple(promise.contract for promise in kept_for)}
        accounts = charge_accounts(accounts, plan.catalogue, contracts, [usage], 0)
    assert sum(paid_per_hour(account, Record(), HOUR) or 0.0 for account in accounts.values()) == pytest.approx(
        plan.totals.rescost * 3600
    )
