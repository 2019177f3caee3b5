"""The table of SQL constructs says what is so: each example is refreshed as it says, and kept right."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from headrace.declare.constructs.construct import Construct, HowKept
from headrace.declare.recompute import FullViewReader
from headrace.declare.sql import ViewText, read_query, read_views
from headrace.meaning.deltas import delta
from headrace.meaning.evaluate import Batch, evaluate, evaluate_change
from headrace.meaning.zset import EMPTY, apply
from headrace.model.catalogue import Refusal
from headrace.model.errors import EvaluationError
from headrace.testing import changes, tables
from tests.declare.sample_tables import ALL_CONSTRUCTS, SAMPLES
from tests.examples import examples

INSTANTS = (dt.datetime(2024, 2, 29, 13), dt.datetime(2024, 3, 3), dt.datetime(2024, 3, 8))


def find_way(sql: str) -> HowKept:
    texts = {"query": ViewText("query", sql, "query.sql")}
    views, problems = read_views(texts, SAMPLES, {})
    assert not problems
    if not isinstance(views["query"].query, Refusal):
        return HowKept.INCREMENTALLY
    found = FullViewReader(texts, SAMPLES, {}).recomputed(views["query"])
    return HowKept.NOT if isinstance(found, Refusal) else HowKept.IN_FULL


@pytest.mark.parametrize("construct", ALL_CONSTRUCTS, ids=lambda construct: construct.name)
def test_an_example_is_refreshed_as_the_table_says(construct: Construct):
    assert find_way(construct.example) is construct.kept
    assert bool(construct.state and construct.cost) == (construct.kept is HowKept.INCREMENTALLY)


@pytest.mark.parametrize(
    "construct", [one for one in ALL_CONSTRUCTS if one.kept is HowKept.INCREMENTALLY], ids=lambda one: one.name
)
@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_an_example_is_kept_through_changes(construct: Construct, data: st.DataObject):
    relation = read_query(construct.example, SAMPLES)
    rows = data.draw(tables(SAMPLES, max_rows=4))
    change = delta(relation)
    try:
        kept = evaluate(relation, rows, INSTANTS[0])
        for before, now in itertools.pairwise(INSTANTS):
            batch = Batch(rows, data.draw(changes(rows, SAMPLES)), before, now)
            rows = apply(rows, batch.changes)
            kept = kept + (EMPTY if change is None else evaluate_change(change, batch))
            assert kept == evaluate(relation, rows, now)
    except EvaluationError:
        reject()
