"""Nexmark's queries, and DuckDB's answers to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa

from bench.workloads.nexmark import COLUMNS

FOLDER = Path(__file__).parents[1] / "tests" / "queries" / "nexmark"
DUCK_TYPES = {"bigint": "BIGINT", "string": "VARCHAR", "timestamp": "TIMESTAMP"}


def read_queries() -> dict[str, str]:
    """By name."""
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.sql"))}


def sources_of(query: str) -> list[str]:
    return [name for name in COLUMNS if re.search(rf"\b{name}\b AS|FROM {name}\b|JOIN {name}\b", query)]


def digest_answer(rows: pa.Table) -> tuple[int, int]:
    """How many rows, and the sum of their hashes: equal for equal rows in any order."""
    with duckdb.connect(":memory:") as connection:
        connection.register("given", rows)
        found = connection.execute("SELECT count(*), sum(hash(one)::HUGEINT) FROM given one").fetchone()
        assert found is not None
        return int(found[0]), int(found[1] or 0)


class DuckNexmark:
    """Adds files of events to tables in memory, and computes a query over all of them anew."""

    def __init__(self, name: str, query: str) -> None:
        self.name, self.query = name, query
        self.connection = duckdb.connect(":memory:")
        for source, columns in COLUMNS.items():
            described = ", ".join(f"{column} {DUCK_TYPES[type_]}" for column, type_ in columns.items())
            self.connection.execute(f"CREATE TABLE {source} ({described})")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.connection.close()

    def keep(self, files: Mapping[str, Path]) -> None:
        for source, file in files.items():
            self.connection.execute(f"COPY {source} FROM '{file}' (FORMAT csv, HEADER false)")
        self.connection.execute(f"CREATE OR REPLACE TABLE answer AS {self.query}")

    def answer(self) -> pa.Table:
        return self.connection.sql("SELECT * FROM answer").to_arrow_table()
