"""TPC-H and Nexmark: what they mean, as golden trees. `tests/live` compares their answers with Spark's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.declare.sql import read_query
from headrace.model.catalogue import Source
from headrace.model.show import show
from tests.declare.query.well_formed import flaws
from tests.golden import check_golden
from tests.queries.schemas import NEXMARK, TPCH, queries

GOLDEN = Path(__file__).parents[2] / "golden" / "sql"
BENCHMARKS: Mapping[str, Mapping[str, Source]] = {"tpch": TPCH, "nexmark": NEXMARK}
ALL = [(benchmark, name) for benchmark in BENCHMARKS for name in queries(benchmark)]


@pytest.mark.parametrize(("benchmark", "name"), ALL)
def test_a_query_of_a_benchmark_is_understood(benchmark: str, name: str):
    sql = queries(benchmark)[name]
    file = f"{benchmark}/{name}.sql"
    tree = read_query(sql, BENCHMARKS[benchmark], file)
    assert not flaws(tree)
    title = sql.partition("\n")[0].removeprefix("-- ")
    check_golden(GOLDEN / benchmark / f"{name}.txt", f"# {title}\n{show(tree)}\n")
