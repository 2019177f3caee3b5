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


@settings(deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_views_are_right_after_deaths_at_any_commit(data):
    with quick_folder() as folder:
        live_through_deaths(data, world_of(VIEWS, "m2", Path(folder)))
