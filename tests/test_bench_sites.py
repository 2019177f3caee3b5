"""Parts of the benchmarks of sites that decide something."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.contracts_apart import PHASES, generate_counts, phase_at, read_rate, scale_counts
from bench.contracts_sites import alternate
from bench.workloads.live_table1 import Live, live_catalogue
from bench.workloads.table1 import RELATIONS


def test_a_recorded_rate_is_scaled_to_its_mean_and_several_series_are_added(tmp_path: Path) -> None:
    times = [dt.datetime(2026, 1, 1, hour) for hour in (1, 0, 1, 0)]
    table = pa.table({"series": ["b", "b", "a", "a"], "at": times, "count": [20, 5, 10, 5]})
    pq.write_table(table, tmp_path / "rate.parquet")
    rate = read_rate(tmp_path / "rate.parquet", mean=100.0, seconds=60.0)
    assert [rate(at) for at in (0.0, 29.0, 31.0, 500.0)] == [50.0, 50.0, 150.0, 150.0]


def test_a_generated_rate_has_its_mean_and_bursts_and_is_always_the_same() -> None:
    rate = scale_counts(generate_counts(), mean=100.0, seconds=576.0)
    seen = [rate(float(at)) for at in range(576)]
    assert seen == [scale_counts(generate_counts(), 100.0, 576.0)(float(at)) for at in range(576)]
    assert round(sum(seen) / len(seen)) == 100
    assert max(seen) > 250.0 and 0.0 < min(seen) < 50.0


def test_readers_go_from_the_first_phase_to_the_last() -> None:
    assert [phase_at(at, 100.0) for at in (-5.0, 0.0, 25.0, 99.0, 200.0)] == [0, 0, 1, len(PHASES) - 1, len(PHASES) - 1]


def test_each_way_is_equally_often_first() -> None:
    assert alternate("a", "b", 3) == ["a", "b", "b", "a", "a", "b"]


def test_machines_share_all_relations_and_each_has_a_database_of_its_own() -> None:
    live = Live(machines=4, apart=True)
    assert sorted(one.name for name in live.names for one in live.relations_at(name)) == sorted(
        r.name for r in RELATIONS
    )
    for source in live_catalogue(live).sources.values():
        assert source.origin is not None and source.origin.address == f"${{{source.site.upper()}_DSN}}"
