"""Parts of a view, each computed from the rows that it needs, are the view."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.errors import EvaluationError
from headrace.model.relation import Relation, fields_of
from headrace.model.types import Value
from headrace.run.check.view_parts import ViewDivision, count_parts, divide_view
from headrace.testing.relations import relations
from headrace.testing.tables import SCHEMA, tables


def part_of(value: Value, parts: int) -> int:
    return hash(str(value)) % parts


def restrict(source: str, rows: ZSet, division: ViewDivision, part: int, parts: int) -> ZSet:
    columns = [column.name for column in SCHEMA[source].columns or ()]
    if source not in division.by_source:
        return rows
    place = columns.index(division.by_source[source])
    return ZSet((row, weight) for row, weight in rows.items() if part_of(row[place], parts) == part)


@given(relations(), tables(), st.data())
def test_a_part_of_a_view_needs_only_the_rows_of_its_part(
    query: Relation, rows: Mapping[str, ZSet], data: st.DataObject
) -> None:
    counts = {source: data.draw(st.integers(0, 100)) for source in SCHEMA}
    division = divide_view(query, counts)
    assume(division is not None)
    assert division is not None
    try:
        whole = evaluate(query, rows)
    except EvaluationError:
        assume(False)
    for part in range(3):
        fewer = {source: restrict(source, table, division, part, 3) for source, table in rows.items()}
        found = evaluate(query, fewer)
        assert choose_part(found, division, part) == choose_part(whole, division, part)


def choose_part(rows: ZSet, division: ViewDivision, part: int) -> ZSet:
    return ZSet((row, weight) for row, weight in rows.items() if part_of(row[division.column], 3) == part)


@pytest.mark.parametrize(
    ("query", "column", "by_source"),
    [
        ("SELECT k, sum(n) AS n FROM r GROUP BY k", "k", {"r": "k"}),
        ("SELECT r.name, s.k, s.label FROM r JOIN s ON r.k = s.k", "k", {"r": "k", "s": "k"}),
        ("SELECT r.k, s.label FROM r LEFT JOIN s ON r.k = s.k", "k", {"r": "k", "s": "k"}),
        ("SELECT s.label FROM r LEFT JOIN s ON r.k = s.k", None, {}),
        ("SELECT count(*) AS n FROM r", None, {}),
        ("SELECT k + 1 AS k FROM r", None, {}),
        ("SELECT a.k, b.n FROM r a JOIN r b ON a.k = b.n", None, {}),
        ("SELECT a.k, b.n FROM r a JOIN r b ON a.k = b.k", "k", {"r": "k"}),
        ("SELECT k FROM r WHERE k NOT IN (SELECT k FROM s)", "k", {"r": "k"}),
        ("SELECT k FROM r UNION ALL SELECT k FROM s", "k", {"r": "k", "s": "k"}),
    ],
)
def test_a_view_is_divided_by_a_column_that_comes_from_its_sources(
    query: str, column: str | None, by_source: dict[str, str]
) -> None:
    read = read_query(query, SCHEMA)
    division = divide_view(read, {"r": 10, "s": 10})
    if column is None:
        assert division is None
    else:
        assert division is not None and dict(division.by_source) == by_source
        assert fields_of(read)[division.column].name == column


def test_large_sources_that_cannot_be_divided_make_a_view_too_large() -> None:
    division = ViewDivision(0, {"r": "k"})
    assert count_parts({"r": 50, "s": 50}, None, 100) == 1
    assert count_parts({"r": 500, "s": 50}, None, 100) is None
    assert count_parts({"r": 500, "s": 50}, division, 100) == 10
    assert count_parts({"r": 500, "s": 51}, division, 100) is None
