"""Queries that read the time anywhere have, at each instant, the rows that they have with that instant written in."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from headrace.declare.query.now import is_time_filter
from headrace.declare.query.trees import expressions_of, nodes
from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.model.errors import EvaluationError
from headrace.model.expr import conjuncts, is_deterministic
from headrace.model.relation import Filter, Relation
from headrace.testing import SCHEMA, tables
from tests.declare.query.well_formed import flaws
from tests.examples import examples

INSTANTS = (
    dt.datetime(2024, 2, 29),
    dt.datetime(2024, 2, 29, 12, 30, 15),
    dt.datetime(2024, 3, 1, 0, 0, 0, 1),
    dt.datetime(2024, 2, 29, 13, 10),
    dt.datetime(1970, 1, 1),
    dt.datetime(2025, 12, 31, 23, 59, 59, 999_999),
)
TIMED = [
    "SELECT id FROM r WHERE at > now() - INTERVAL '1 hour' OR ok",
    "SELECT id FROM r WHERE NOT (at > now() - INTERVAL '1 hour' AND ok)",
    "SELECT id FROM r WHERE at BETWEEN now() - INTERVAL '2 days' AND now() - INTERVAL '1 hour'",
    "SELECT id FROM r WHERE NOT at BETWEEN now() - INTERVAL '2 days' AND now()",
    "SELECT id FROM r WHERE at < now() - INTERVAL '1 day' OR at > now() OR day = current_date",
    "SELECT id FROM r WHERE day <> current_date",
    "SELECT id FROM r WHERE day IN (current_date, current_date - 1) AND day NOT IN (current_date - 2)",
    "SELECT id FROM r WHERE day = current_date OR (ok AND at >= date_trunc('month', now()))",
    "SELECT id FROM r WHERE month(day) = month(now()) AND year(day) = year(current_date)",
    "SELECT id FROM r WHERE date_trunc('week', at) = date_trunc('week', now())",
    "SELECT id FROM r WHERE (at > now() - INTERVAL '1 month') IS NOT TRUE",
    "SELECT id FROM r WHERE coalesce(at > now() - INTERVAL '1 hour', ok)",
    "SELECT id, at > now() - INTERVAL '1 hour' AS fresh FROM r",
    "SELECT id, current_date AS today, datediff(current_date, day) AS age FROM r",
    "SELECT id, CASE WHEN at > now() - INTERVAL '1 hour' THEN 'hour' WHEN at > now() - INTERVAL '1 day' THEN 'day'"
    " ELSE 'old' END AS age FROM r",
    "SELECT id, CASE WHEN at > now() THEN current_date ELSE day END AS d FROM r",
    "SELECT id, hour(now()) AS h, date_trunc('hour', now()) AS start FROM r WHERE k > 0",
    "SELECT id, minute(now()) - minute(at) AS m FROM r",
    "SELECT k, count(*) FILTER (WHERE at > now() - INTERVAL '1 day') AS n, max(datediff(current_date, day)) AS a"
    " FROM r GROUP BY k",
    "SELECT datediff(current_date, day) AS age, count(*) AS n FROM r GROUP BY datediff(current_date, day)",
    "SELECT r.id, s.label FROM r LEFT JOIN s ON r.k = s.k AND s.at > now() - INTERVAL '1 day'",
    "SELECT r.id, s.label FROM r LEFT JOIN s ON r.k = s.k AND month(s.at) = month(now())",
    "SELECT r.id, s.label FROM r LEFT JOIN s ON r.k = s.k AND datediff(current_date, r.day) < s.n",
    "SELECT r.id, s.label FROM r LEFT JOIN s ON r.k = s.k AND r.at > now() - INTERVAL '1 day'",
    "SELECT r.id, s.label FROM r RIGHT JOIN s ON r.k = s.k WHERE r.at > now() OR s.label = 'a'",
    "SELECT id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND s.at > now() - INTERVAL '1 day')",
    "SELECT r.id FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND (s.at > now() OR s.label = 'a'))",
    "SELECT current_date AS today",
    "SELECT id, date_format(now(), 'yyyy-MM') AS month, date_format(now(), 'dd.MM. HH:mm') AS minute FROM r",
    "SELECT id FROM r WHERE day > make_date(year(current_date), 1, 1)",
    "SELECT id FROM r WHERE day >= last_day(current_date) OR dayofweek(current_date) = 5",
]


def written_in(sql: str, now: dt.datetime) -> str:
    return sql.replace("now()", f"TIMESTAMP '{now}'").replace("current_date", f"DATE '{now.date()}'")


def reads_time_in_filters_alone(relation: Relation) -> bool:
    filters = [node for node in nodes(relation) if isinstance(node, Filter)]
    timed = [part for node in filters for part in conjuncts(node.predicate) if not is_deterministic(part)]
    others = [expr for node in nodes(relation) if not isinstance(node, Filter) for expr in expressions_of(node)]
    return all(map(is_time_filter, timed)) and all(map(is_deterministic, others))


@pytest.mark.parametrize("sql", TIMED)
def test_time_is_read_in_filters_on_time_alone(sql: str):
    tree = read_query(sql, SCHEMA)
    assert not flaws(tree)
    assert reads_time_in_filters_alone(tree)


@pytest.mark.parametrize("sql", TIMED)
@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=tables(), now=st.sampled_from(INSTANTS))
def test_a_query_has_the_rows_of_the_instant(sql: str, rows, now: dt.datetime):
    try:
        expected = evaluate(read_query(written_in(sql, now), SCHEMA), rows)
    except EvaluationError:
        reject()
    assert evaluate(read_query(sql, SCHEMA), rows, now) == expected
