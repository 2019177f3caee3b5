"""What is kept plus the change is what one would compute from scratch, whatever the query and its history."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.deltas import before, delta, reads_time
from headrace.meaning.evaluate import Batch, evaluate, evaluate_change
from headrace.meaning.zset import EMPTY, ZSet, apply
from headrace.model.errors import EvaluationError
from headrace.model.expr import Call
from headrace.model.relation import (
    Join,
    JoinKind,
    Matching,
    Negate,
    Output,
    Projection,
    Ranking,
    Relation,
    Scan,
    TopK,
    UnionAll,
    Version,
    fields_of,
    inputs_of,
    scans_of,
)
from headrace.model.show import show
from headrace.model.types import INT, STRING, TIMESTAMP
from headrace.testing import SCHEMA, Tables, changes, make_source, queries, relations, tables
from tests.examples import examples
from tests.golden import check_golden

INSTANTS = (
    dt.datetime(2024, 2, 29, 0),
    dt.datetime(2024, 2, 29, 13),
    dt.datetime(2024, 2, 29, 13, 35),
    dt.datetime(2024, 3, 1, 12, 35),
    dt.datetime(2024, 3, 2),
)
"""Hours around those of the random timestamps, so that rows come and go as time passes."""


@st.composite
def histories(draw: st.DrawFn, batches: int = 3) -> list[Batch]:
    """Some batches over random tables, while time passes."""
    now_before, *instants = sorted(
        draw(st.lists(st.sampled_from(INSTANTS), min_size=batches + 1, max_size=batches + 1))
    )
    rows, steps = draw(tables(max_rows=4)), []
    for now in instants:
        steps.append(Batch(rows, draw(changes(rows)), now_before, now))
        rows, now_before = apply(rows, steps[-1].changes), now
    return steps


def check(relation: Relation, steps: list[Batch], unchanged: frozenset[str] = frozenset()) -> None:
    """After every batch, kept + delta == recomputed."""
    change = delta(relation, unchanged)
    kept = evaluate(relation, steps[0].before, steps[0].now_before)
    for step in steps:
        kept = kept + (EMPTY if change is None else evaluate_change(change, step))
        assert kept == evaluate(relation, apply(step.before, step.changes), step.now)


def check_unless_it_fails(relation: Relation, steps: list[Batch], unchanged: frozenset[str] = frozenset()) -> None:
    """A query that fails on its data has no answer to keep."""
    try:
        check(relation, steps, unchanged)
    except EvaluationError:
        reject()


ANY_SIZE = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
)


@settings(ANY_SIZE, max_examples=examples(120))
@given(st.data())
def test_kept_plus_delta_is_recomputed_after_every_batch(data: st.DataObject):
    relation = data.draw(relations(timed=True))
    check_unless_it_fails(relation, data.draw(histories()))


@pytest.mark.long
@settings(ANY_SIZE, max_examples=5_000)
@given(st.data())
def test_kept_plus_delta_is_recomputed_in_many_histories(data: st.DataObject):
    relation = data.draw(relations(timed=True, depth=4))
    check_unless_it_fails(relation, data.draw(histories()))


@settings(ANY_SIZE, max_examples=examples(60))
@given(st.data())
def test_the_delta_of_a_query_in_sql_is_its_change(data: st.DataObject):
    relation = read_query(data.draw(queries()), SCHEMA)
    check_unless_it_fails(relation, data.draw(histories()))


@settings(ANY_SIZE, max_examples=examples(60))
@given(st.data())
def test_what_is_known_to_stay_is_left_out_of_the_delta(data: st.DataObject):
    relation = data.draw(relations(timed=True))
    unchanged = frozenset(data.draw(st.sets(st.sampled_from(sorted(SCHEMA)))))
    steps = [_without_changes(step, unchanged) for step in _rebuilt(data.draw(histories()), unchanged)]
    check_unless_it_fails(relation, steps, unchanged)
    change = delta(relation, unchanged)
    assert change is None or all(
        scan.source not in unchanged or scan.version == Version.NOW for scan in scans_of(change)
    )


def _rebuilt(steps: list[Batch], unchanged: frozenset[str]) -> Iterator[Batch]:
    """The same history with the unchanged sources as they were at its start."""
    first = steps[0].before
    for step in steps:
        yield replace(step, before={**step.before, **{name: first[name] for name in unchanged}})


def _without_changes(step: Batch, unchanged: frozenset[str]) -> Batch:
    return replace(step, changes={**step.changes, **dict.fromkeys(unchanged, EMPTY)})


def operators(relation: Relation) -> Iterator[str]:
    match relation:
        case Join():
            yield f"{relation.kind} join"
        case TopK():
            yield f"{relation.ranking}{' of partitions' if relation.partition else ''}"
        case Scan(version=version):
            yield f"scan {version}"
        case _:
            yield type(relation).__name__ + (" by time" if reads_time(relation) else "")
    for input_ in inputs_of(relation):
        yield from operators(input_)


def test_random_relations_contain_every_operator_often():
    seen: Counter[str] = Counter()

    @settings(ANY_SIZE, max_examples=400, database=None, phases=[Phase.generate], derandomize=True)
    @given(relations(timed=True))
    def look(relation: Relation) -> None:
        seen.update(set(operators(relation)))

    look()
    expected = {
        *(f"{kind} join" for kind in JoinKind),
        *(f"{ranking}{partition}" for ranking in Ranking for partition in ("", " of partitions")),
        *(
            "Filter",
            "Filter by time",
            "Projection",
            "UnionAll",
            "Distinct",
            "Aggregate",
            "Windows",
            "Sessions",
            "Unfold",
            "Over",
            "scan now",
        ),
    }
    assert set(seen) == expected
    assert min(seen.values()) >= 3, seen


ORDERS = make_source("orders", {"id": INT, "customer": INT})
CUSTOMERS = make_source("customers", {"id": INT, "city": INT})
CITIES = make_source("cities", {"id": INT, "name": STRING})
SHOP = {source.name: source for source in (ORDERS, CUSTOMERS, CITIES)}
GOLDEN = Path(__file__).parents[1] / "golden" / "deltas"

TWO_WAY = "SELECT o.id, c.city FROM orders AS o JOIN customers AS c ON o.customer = c.id"
THREE_WAY = f"SELECT q.id, y.name FROM ({TWO_WAY}) AS q JOIN cities AS y ON q.city = y.id"
LEFT = TWO_WAY.replace("JOIN", "LEFT JOIN")
CUSTOMERS_ORDERS = "SELECT customer, count(*) AS n FROM orders GROUP BY customer"
NONE: frozenset[str] = frozenset()

DELTAS: dict[str, tuple[str, str, frozenset[str]]] = {
    "two-way-join": ("New orders meet all customers, new customers the old orders.", TWO_WAY, NONE),
    "three-way-join": ("The change of the inner join takes part in the outer one.", THREE_WAY, NONE),
    "three-way-join-of-static-tables": (
        "Where only orders change, one term is left.",
        THREE_WAY,
        frozenset({"customers", "cities"}),
    ),
    "left-join": ("An outer join changes as its pairs and as its rows without a partner.", LEFT, NONE),
    "semi-join": (
        "New orders are looked up; old orders are asked again only when their customer came or went.",
        "SELECT id FROM orders WHERE customer IN (SELECT id FROM customers)",
        NONE,
    ),
    "aggregate": ("Only groups that a change touches are counted again.", CUSTOMERS_ORDERS, NONE),
    "aggregate-of-everything": ("Without keys there is one group.", "SELECT count(*) AS n FROM orders", NONE),
    "distinct": ("Each row is its own group.", "SELECT DISTINCT customer FROM orders", NONE),
    "top-k": ("Without a partition the first rows are found anew.", "SELECT id FROM orders ORDER BY id LIMIT 3", NONE),
}


@pytest.mark.parametrize("name", DELTAS)
def test_a_delta_is_a_query_that_one_can_read(name: str):
    sentence, sql, unchanged = DELTAS[name]
    change = delta(read_query(sql, SHOP), unchanged)
    assert change is not None
    stays = f"\nunchanged: {', '.join(sorted(unchanged))}" if unchanged else ""
    check_golden(GOLDEN / f"{name}.txt", f"# {sentence}\n{sql}{stays}\n----\n{show(change)}\n")


def test_a_delta_by_time_is_a_query_that_one_can_read():
    calls = {"calls": make_source("calls", {"id": INT, "at": TIMESTAMP})}
    sql = "SELECT id FROM calls WHERE at > now() - INTERVAL '7' DAY"
    change = delta(read_query(sql, calls))
    assert change is not None
    sentence = "As time passes, rows that were recent leave, although no source changed."
    check_golden(GOLDEN / "filter-on-time.txt", f"# {sentence}\n{sql}\n----\n{show(change)}\n")


def test_nothing_changes_when_no_source_does():
    for _, sql, _ in DELTAS.values():
        assert delta(read_query(sql, SHOP), frozenset(SHOP)) is None


def test_time_alone_changes_a_filter_on_time():
    scan = Scan("calls", "calls", ("at",), (TIMESTAMP,))
    relation = read_query("SELECT at FROM calls WHERE at > now()", {"calls": make_source("calls", {"at": TIMESTAMP})})
    change = delta(relation, frozenset({"calls"}))
    assert change is not None
    assert {found.version for found in scans_of(change)} == {scan.version}


def test_before_reads_old_rows_and_the_old_time():
    relation = read_query("SELECT at FROM s WHERE at > now()", SCHEMA)
    was = before(relation)
    assert [scan.version for scan in scans_of(was)] == [Version.BEFORE]
    assert "now_before" in show(was)
    assert before(relation, frozenset({"s"})) != relation


def test_the_delta_of_a_query_has_the_fields_of_the_query():
    for _, sql, unchanged in DELTAS.values():
        relation = read_query(sql, SHOP)
        change = delta(relation, unchanged)
        assert change is not None
        assert fields_of(change) == fields_of(relation)


def test_a_union_that_lost_its_first_input_keeps_its_names():
    orders, customers = (read_query(f"SELECT id AS {name}_id FROM {name}", SHOP) for name in ("orders", "customers"))
    change = delta(UnionAll((orders, customers)), frozenset({"orders"}))
    assert change is not None
    assert fields_of(change) == fields_of(orders)


def test_only_touched_groups_are_computed_again():
    relation = read_query(CUSTOMERS_ORDERS, SHOP)
    change = delta(relation)
    assert change is not None
    matching = [part for part in _parts(change) if isinstance(part, Matching)]
    old = {"orders": ZSet.of((number, number % 100) for number in range(1000))}
    step = Batch(old, {"orders": ZSet.of([(5000, 7)])})
    assert [len(evaluate_change(part, step)) for part in matching] == [11, 10]
    assert evaluate_change(change, step) == ZSet([((7, 11), 1), ((7, 10), -1)])


def _parts(relation: Relation) -> Iterator[Relation]:
    yield relation
    for input_ in inputs_of(relation):
        yield from _parts(input_)


def test_a_change_that_cancels_changes_nothing():
    relation = read_query(THREE_WAY, SHOP)
    step = Batch({name: ZSet.of([(1, 1)]) for name in SHOP}, dict.fromkeys(SHOP, EMPTY))
    change = delta(relation)
    assert change is not None
    assert evaluate_change(change, step) == EMPTY


def test_deltas_of_many_joins_stay_small_as_graphs():
    """As a tree the delta of ten nested outer joins has millions of operators, as a graph a few hundred."""
    sql = "SELECT o0.id FROM orders AS o0" + "".join(
        f" LEFT JOIN orders AS o{number} ON o{number}.id = o{number - 1}.customer" for number in range(1, 11)
    )
    change = delta(read_query(sql, SHOP))
    assert change is not None
    assert len(set(map(id, _graph(change, {})))) < 1000


def _graph(relation: Relation, seen: dict[int, Relation]) -> Iterator[Relation]:
    if id(relation) not in seen:
        seen[id(relation)] = relation
        for input_ in inputs_of(relation):
            list(_graph(input_, seen))
    return iter(seen.values())


def test_negation_passes_through():
    relation = Negate(read_query("SELECT id FROM orders", SHOP))
    change = delta(relation)
    assert isinstance(change, Negate)


def test_a_time_inside_a_projection_is_computed_as_a_whole():
    relation = read_query("SELECT at FROM s", SCHEMA)
    aged = Projection(relation, (Output("seen", Call("now", (), TIMESTAMP)),))
    assert reads_time(aged)
    assert not reads_time(relation)
    rows: Tables = {"s": ZSet.of([(1, 1, None, "a", None)])}
    step = Batch(rows, {"s": ZSet.of([(2, 2, None, "b", None)])}, INSTANTS[0], INSTANTS[1])
    check(aged, [step])
