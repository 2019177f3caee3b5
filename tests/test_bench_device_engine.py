"""The benchmark of a device at a tiny size: the engine, SQLite and the evaluator say the same after every row."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench.device_engine import make_templates, partner_rows, run_device, time_ways, walk


@pytest.mark.live
def test_ways_agree_and_a_real_device_takes_all_rows(tmp_path: Path) -> None:
    chance = random.Random(1)
    walking = walk(chance)
    rows = [next(walking) for _ in range(300)]
    for template in make_templates(40):
        others = partner_rows(template.partners, chance)
        rates = time_ways(template, rows, others)
        assert set(rates) == {"engine", "SQLite", "evaluator"} and min(rates.values()) > 100
        folder = tmp_path / template.name
        folder.mkdir()
        measured = run_device(template, rows, others, folder)
        assert measured.rss_mb < 60 and measured.results > 0
