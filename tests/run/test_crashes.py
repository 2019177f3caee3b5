"""The engine is killed at every commit point, before and after it; nothing is lost and nothing doubled."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.testing.worlds import quick_folder
from tests.run.deaths import live_through_deaths
from tests.run.test_engine import world_of

VIEWS = [
    "SELECT r.name, s.label FROM r JOIN s ON r.k = s.k",
    "SELECT r.k, count(*) AS c, max(s.n) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k",
    "SELECT DISTINCT s.k FROM s LEFT JOIN t ON s.k = t.k WHERE t.ok IS NULL OR t.ok",
]
OTHERS = [
    "SELECT id, k, sum(n) OVER (PARTITION BY k ORDER BY id ROWS 1 PRECEDING) AS s FROM r",
    "SELECT k, session_window.start AS began, count(*) AS c FROM r GROUP BY k, session_window(at, '1 day')",
    "SELECT id, e FROM r LATERAL VIEW explode(array(k, n)) AS e",
    "SELECT k, array_agg(id) AS ids FROM r GROUP BY k",
    "SELECT r.id, s.label FROM r JOIN s ON s.at BETWEEN r.at - INTERVAL 1 DAY AND r.at",
]
"""Views whose operators keep rows in an order, make several of one, or look for others nearby."""


@settings(deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_views_are_right_after_deaths_at_any_commit(data):
    with quick_folder() as folder:
        live_through_deaths(data, world_of(VIEWS, "m2", Path(folder)))


@settings(deadline=None, max_examples=4, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_windows_sessions_lists_and_near_joins_are_right_after_deaths_at_any_commit(data):
    with quick_folder() as folder:
        live_through_deaths(data, world_of(OTHERS, "m2", Path(folder)))
