"""The steps between two plans: what they say, that they leave out nothing, and that nothing is left after them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinate.existing import Existing
from headrace.coordinate.steps import CompiledPlan, compile_with, steps_between
from headrace.model.catalogue import Contract, PostgresTable, Source
from headrace.model.plan import Plan, PlanOptions
from headrace.model.steps import (
    AtSwitch,
    BuildIndex,
    ForgetVertices,
    LoadVertices,
    ReadAgain,
    ReadSources,
    Steps,
    StopContract,
    SwitchPlan,
    say_step,
    split_acts,
    step_document,
    vertices_of,
)
from headrace.plan.make import make_plan
from headrace.plan.share.change import add_contract, remove_contract
from headrace.run.program import Ingest
from tests.examples import examples
from tests.plan.share.projects import SITES, VIEWS, shop, wanted, with_contracts
from tests.running.loaded import existing_while_running

DIRECTORY = "/projects/shop"
HOMES = {"orders": "${US_DSN}", "customers": "${EU_DSN}", "items": "${US_DSN}"}


def located(source: Source) -> Source:
    return replace(source, origin=PostgresTable(HOMES[source.name], source.name))


def delivered(contract: Contract) -> Contract:
    return replace(contract, deliver=PostgresTable("${OUT_DSN}", f"{contract.name}_copy"))


@cache
def plan_of(*contracts: Contract) -> Plan:
    catalogue = shop()
    sources = {name: located(source) for name, source in catalogue.sources.items()}
    return make_plan(with_contracts(replace(catalogue, sources=sources), contracts), PlanOptions())


def compiled(plan: Plan) -> CompiledPlan:
    return compile_with(plan, {})


def all_of(plan: Plan | None) -> Existing:
    return Existing(directory=DIRECTORY) if plan is None else existing_while_running(plan, DIRECTORY)


def between(running: Plan | None, then: Plan, existing: Existing | None = None, reread: Iterable[str] = ()) -> Steps:
    before = None if running is None else compiled(running)
    found = all_of(running) if existing is None else existing
    return steps_between(before, compiled(then), found, frozenset(reread))


def say(steps: Steps) -> list[str]:
    return [say_step(step) for step in steps]


def test_a_plan_that_runs_needs_no_steps():
    plan = plan_of(wanted("sales"), delivered(wanted("bought", "asia")))
    assert between(plan, plan) == ()


def test_the_first_plan_captures_reads_loads_and_switches():
    plan = plan_of(delivered(wanted("sales")))
    assert say(between(None, plan)) == [
        "capture customers from database eu_dsn",
        "capture orders from database us_dsn",
        "read customers and orders",
        f"load sales at eu ({len(plan.graph.vertices)} vertices)",
        "switch to the new plan",
        'write a copy of sales_eu to table "sales_eu_copy"',
    ]


def test_a_contract_that_ends_goes_with_its_captures_its_copy_and_its_slot_after_the_switch():
    before, then = plan_of(wanted("by_product", "us"), delivered(wanted("sales"))), plan_of(wanted("by_product", "us"))
    said = say(between(before, then))
    assert said[0] == "switch to the new plan" and said[1].startswith("stop sales_eu: sales at eu (")
    assert said[2:] == [
        "stop capturing customers from database eu_dsn",
        "stop capturing orders from database us_dsn",
        'remove the copy of sales_eu from table "sales_eu_copy"',
        "drop the replication slot in database eu_dsn",
    ]


def test_a_source_that_somebody_wants_read_again_is_read_and_everything_made_from_it_is_loaded():
    plan = plan_of(wanted("sales"), wanted("by_product", "us"))
    steps = between(plan, plan, reread=["orders"])
    assert [type(step) for step in steps] == [ReadAgain, ReadSources, LoadVertices, SwitchPlan]
    loaded = {plan.graph.vertices[name].scope for step in steps for name in vertices_of(step)}
    assert all("orders" in scope for scope in loaded) and loaded


def with_orders(plan: Plan, origin: PostgresTable) -> Plan:
    orders = replace(plan.catalogue.sources["orders"], origin=origin)
    return replace(plan, catalogue=replace(plan.catalogue, sources={**plan.catalogue.sources, "orders": orders}))


def test_a_source_of_another_shape_is_read_again():
    plan = plan_of(wanted("sales"))
    then = with_orders(plan, PostgresTable(HOMES["orders"], "all_orders"))
    said = say(between(plan, then))
    assert (
        said[0].startswith("read orders again, and rebuild everything computed from it (") and said[1] == "read orders"
    )
    assert said[2].startswith("load sales at eu (") and said[3:] == ["switch to the new plan"]


def test_a_table_that_is_in_another_database_is_captured_there_before_it_is_left_here():
    plan = plan_of(wanted("sales"))
    said = say(between(plan, with_orders(plan, PostgresTable("${EU_DSN}", "orders"))))
    assert said == [
        "capture orders from database eu_dsn",
        "switch to the new plan",
        "stop capturing orders from database us_dsn",
        "drop the replication slot in database us_dsn",
    ]


def test_what_a_plan_that_was_given_up_left_goes_first_and_is_loaded_again():
    plan = plan_of(wanted("by_product", "us"))
    then = add_contract(plan, wanted("sales"))
    given_up = replace(all_of(then), slots=all_of(then).slots[:1])
    first, *_ = steps = between(plan, then, given_up)
    assert isinstance(first, ForgetVertices) and first.spools == ("customers", "orders")
    assert set(first.vertices) == set(then.graph.vertices) - set(plan.graph.vertices)
    assert any(isinstance(step, LoadVertices) and set(step.vertices) == set(first.vertices) for step in steps)


def test_a_project_without_its_plan_goes_on_with_the_rows_of_its_sources():
    """Spools hold only what no view has read: rows of sources are nowhere else."""
    plan = plan_of(wanted("sales"))
    first, *_ = steps = between(None, plan, all_of(plan))
    bases = {name for name, task in compiled(plan).program.tasks.items() if isinstance(task.step, Ingest)}
    assert bases and isinstance(first, ForgetVertices) and bases.isdisjoint(first.logs) and not first.spools
    assert not any(isinstance(step, ReadSources | ReadAgain) for step in steps)
    loaded = {name for step in steps if isinstance(step, LoadVertices) for name in step.logs}
    assert loaded and bases.isdisjoint(loaded)


def test_an_index_that_is_missing_is_built():
    plan = plan_of(wanted("sales"))
    existing = all_of(plan)
    name, columns = next((name, next(iter(keys))) for name, keys in existing.keys.items() if keys)
    steps = between(plan, plan, replace(existing, keys={**existing.keys, name: frozenset()}))
    assert BuildIndex in {type(step) for step in steps}
    assert any(isinstance(step, BuildIndex) and step.columns == columns for step in steps)


def test_a_view_that_is_wanted_elsewhere_moves_and_its_old_place_is_forgotten_after_the_switch():
    steps = between(plan_of(wanted("sales", "eu", name="S")), plan_of(wanted("sales", "asia", name="S")))
    said = say(steps)
    assert "move customers x orders from eu to asia" in said and "change S: sales at eu -> sales at asia" in said
    assert said.index("move customers x orders from eu to asia") < said.index("switch to the new plan") < len(said) - 1


def test_a_document_says_what_is_done_in_words_and_names_no_vertex_in_them():
    for step in between(None, plan_of(wanted("sales"))):
        document = step_document(step)
        assert document.keys() == {"do", "text", "vertices"}
        assert not any(vertex in document["text"] for vertex in document["vertices"])


def test_what_several_contracts_no_longer_need_is_told_with_all_of_them():
    staying = wanted("by_product", name="P")
    before = plan_of(wanted("sales", "us", name="S"), wanted("sales", "asia", name="T"), staying)
    said = say(
        between(before, plan_of(wanted("by_product", "us", name="S"), wanted("by_product", "asia", name="T"), staying))
    )
    assert any(text.startswith("drop what S and T no longer need (") for text in said)
    assert any(text.startswith("drop what T no longer needs (") for text in said)


# Any two plans


TERMS = st.tuples(st.sampled_from(sorted(VIEWS)), st.sampled_from(SITES), st.sampled_from((30.0, 600.0)), st.booleans())
SOME = st.lists(TERMS, max_size=3, unique_by=lambda one: one[:2])


class Pair:
    """A plan that runs, and the one to go over to. Plans are too large to be shown."""

    def __init__(self, running: Plan | None, then: Plan) -> None:
        self.running, self.then = running, then

    def __repr__(self) -> str:
        before = {} if self.running is None else self.running.catalogue.contracts
        return f"{sorted(before)} -> {sorted(self.then.catalogue.contracts)}"


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Plans that were made apart, or one from the other."""
    first = plan_of(*map(asked, draw(SOME)))
    if draw(st.booleans()):
        return Pair(first if draw(st.booleans()) else None, plan_of(*map(asked, draw(SOME))))
    then = first
    for name in draw(st.lists(st.sampled_from(sorted(first.catalogue.contracts) or [""]), max_size=2, unique=True)):
        then = remove_contract(then, name) if name else then
    for terms in draw(SOME):
        contract = asked(terms)
        then = then if contract.name in then.catalogue.contracts else add_contract(then, contract)
    return Pair(first, then)


def asked(terms: tuple[str, str, float, bool]) -> Contract:
    view, site, freshness, is_delivered = terms
    contract = wanted(view, site, freshness)
    return delivered(contract) if is_delivered else contract


@settings(max_examples=examples(20), deadline=None)
@given(pair=pairs(), seed=st.integers(0, 2**32))
def test_steps_come_in_an_order_in_which_they_can_be_done(pair, seed):
    running, then, chance = pair.running, pair.then, random.Random(seed)
    existing = all_of(running)
    lost = {name for name in sorted(existing.logs) if chance.random() < 0.2}
    steps = between(running, then, replace(existing, logs=existing.logs - lost))
    switches = [number for number, step in enumerate(steps) if isinstance(step, SwitchPlan)]
    assert len(switches) <= 1
    after = steps[switches[0] + 1 :] if switches else ()
    assert not any(isinstance(step, LoadVertices | ReadAgain | AtSwitch) for step in after)
    assert not any(isinstance(step, StopContract) for step in steps if step not in after)
    assert tuple(step for act in split_acts(steps) for step in act) == steps
    loaded = [name for step in steps if isinstance(step, LoadVertices) for name in step.logs]
    assert len(loaded) == len(set(loaded))
    assert all(say_step(step) for step in steps)


def test_steps_that_take_effect_together_are_one_act():
    before, then = plan_of(wanted("sales", "eu", name="S")), plan_of(wanted("sales", "asia", name="S"))
    acts = list(split_acts(between(before, then)))
    (switching,) = [act for act in acts if isinstance(act[-1], SwitchPlan)]
    assert all(isinstance(step, AtSwitch) for step in switching) and len(switching) > 1


@pytest.mark.parametrize("name", ["d:sales|orders@eu~b600ec", "r:orders@us"])
def test_no_id_is_in_the_words(name: str):
    left = Existing(frozenset((name,)), directory=DIRECTORY)
    first = between(None, plan_of(wanted("sales")), left)[0]
    assert say_step(first) == "drop what an earlier plan left behind (1 vertex)"
