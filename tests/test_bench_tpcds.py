"""The benchmark of TPC-DS reads a package as sqlglot's is made, and compares answers with DuckDB's."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from bench.tpcds import TABLES, TEXTS, main

SCHEMA = """
TPCDS_SCHEMA = {
    "sales": {"s_item": "bigint", "s_price": "double"},
    "item": {"i_item": "bigint", "i_rec_start_date": "string"},
}
"""
ROWS = {
    "sales": "s_item|s_price\n1|1.50\n1|2.25\n2|\n",
    "item": "i_item|i_rec_start_date\n1|2001-02-03\n2|\n",
}
BOUNDARY = "-" * 38
QUERIES = [
    "SELECT i_rec_start_date, sum(s_price) AS total, avg(s_price) AS mean FROM sales, item WHERE s_item = i_item "
    "AND (i_rec_start_date > CAST('2000-01-01' AS DATE) OR s_price IS NULL) GROUP BY i_rec_start_date LIMIT 100",
    "SELECT s_item, s_item FROM sales",
    "SELECT missing FROM sales",
]


def make_package(path: Path) -> Path:
    texts = "\n".join(
        f"{BOUNDARY}\n-- TPC-DS {number}\n{BOUNDARY}\n# execute: true\n{sql};\nSELECT 1;"
        for number, sql in enumerate(QUERIES, 1)
    )
    folder = TEXTS.rpartition("/")[0]
    files = {TEXTS: texts.encode(), TABLES: SCHEMA.encode()}
    files |= {f"{folder}/{name}.csv.gz": gzip.compress(rows.encode()) for name, rows in ROWS.items()}
    with tarfile.open(path, "w:gz") as package:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"sqlglot-1.0/{name}")
            entry.size = len(content)
            package.addfile(entry, io.BytesIO(content))
    return path


def test_queries_of_tpcds_are_counted_and_answers_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(make_package(tmp_path / "sqlglot-1.0.tar.gz")), "--answers"])
    said = capsys.readouterr().out
    assert "3 queries that a parser reads" in said
    assert "mistakes                       1" in said
    assert said.endswith("equal\n2 of 2 answers are those of DuckDB\n")
