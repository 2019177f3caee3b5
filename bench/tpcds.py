"""How many of the 99 queries of TPC-DS are understood, and are their answers right?

The texts, tables and a few thousand rows are in the source package of sqlglot (`pip download --no-binary :all:
--no-deps sqlglot`); they are read from there, and are not part of this project. Money is decimal and dates are dates,
as TPC-DS has them. With `--answers` every query that is maintained is loaded into an engine of its own, and compared
with what DuckDB says, without the LIMIT at its end: whose rows are the first ones when some are equal is open.

    headrace bench tpcds sqlglot-30.30.0.tar.gz [--dialect postgres|spark] [--answers] [--queries 1,2]
"""

from __future__ import annotations

import argparse
import ast
import gzip
import math
import re
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa

from bench.sql import Judged, Outcome, judge, say
from bench.sql_collection import Case, Written
from headrace.declare.sql import read_query
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import Source, SourceColumn, SourceKind
from headrace.model.dialect import SqlDialect
from headrace.model.errors import Location
from headrace.model.plan import PlanOptions
from headrace.model.type_names import type_named
from headrace.model.types import Row
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.make import plan_views
from headrace.run.push.engine import NoAnswer
from headrace.run.rows.arrow import arrow_type, rows_of_arrow
from headrace.testing.worlds import RunningWorld

TEXTS, TABLES = "tests/fixtures/optimizer/tpc-ds/tpc-ds.sql", "tests/helpers.py"
DATES = re.compile(r"d_date|.*_rec_(start|end)_date")
PERCENT = re.compile(r".*(gmt_offset|tax_percentage|tax_precentage)")
LIMIT = re.compile(r"\s+LIMIT\s+\d+\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Collection:
    """Queries by number, tables, and their rows as CSV by table."""

    queries: Mapping[int, str]
    tables: Mapping[str, Source]
    rows: Mapping[str, bytes]


def read_package(archive: Path) -> Collection:
    with tarfile.open(archive) as package:
        files = {name.partition("/")[2]: name for name in package.getnames()}

        def read(name: str) -> bytes:
            found = package.extractfile(files[name])
            assert found is not None, f"{name} is a folder"
            return found.read()

        types = _read_types(read(TABLES).decode())
        folder = TEXTS.rpartition("/")[0]
        rows = {name: gzip.decompress(read(f"{folder}/{name}.csv.gz")) for name in types}
        return Collection(_read_queries(read(TEXTS).decode()), _make_tables(types), rows)


def _read_queries(text: str) -> dict[int, str]:
    """Each query stands before the form that sqlglot gives it."""
    parts = re.split(r"-{10,}\n-- TPC-DS (\d+)\n-{10,}\n", text)[1:]
    bodies = ("\n".join(line for line in body.split("\n") if not line.startswith("#")) for body in parts[1::2])
    return {int(number): body.split(";")[0].strip() for number, body in zip(parts[::2], bodies, strict=True)}


def _read_types(source: str) -> dict[str, dict[str, str]]:
    for node in ast.parse(source).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "TPCDS_SCHEMA"
        ):
            found: dict[str, dict[str, str]] = ast.literal_eval(node.value)
            return found
    raise SystemExit(f"{TABLES} of the package has no TPCDS_SCHEMA")


def _make_tables(types: Mapping[str, Mapping[str, str]]) -> dict[str, Source]:
    return {name: _make_table(name, columns) for name, columns in types.items()}


def _make_table(name: str, columns: Mapping[str, str]) -> Source:
    found = []
    for column, written in columns.items():
        type_ = type_named(_choose_type(column, written))
        assert type_ is not None, written
        found.append(SourceColumn(column, type_))
    place, no = Location("tpc-ds"), None
    return Source(name, SourceKind.TABLE, "here", (), tuple(found), 1e4, 1e-3, False, False, no, no, no, no, place)


def _choose_type(column: str, written: str) -> str:
    if DATES.fullmatch(column):
        return "date"
    if written == "double":
        return "decimal(5,2)" if PERCENT.fullmatch(column) else "decimal(7,2)"
    return written


# Understood


def judge_queries(found: Collection, dialect: SqlDialect) -> Iterator[Judged]:
    for number, sql in found.queries.items():
        name = f"q{number:02}"
        yield judge(Case(Written(name, sql, name), found.tables, {}), dialect)


# Answers


class Duck:
    """Rows in memory, and answers over them."""

    def __init__(self, found: Collection, folder: Path) -> None:
        self.connection = duckdb.connect(":memory:")
        for name, source in found.tables.items():
            columns = ", ".join(
                f"{one.name} {'varchar' if str(one.type) == 'string' else one.type}" for one in source.columns or ()
            )
            self.connection.execute(f"CREATE TABLE {name} ({columns})")
            file = folder / f"{name}.csv"
            file.write_bytes(found.rows[name])
            self.connection.execute(f"COPY {name} FROM '{file}' (DELIMITER '|', HEADER, NULL '')")

    def rows(self, sql: str) -> pa.Table:
        return self.connection.sql(sql).to_arrow_table()


def compare(found: Collection, number: int, duck: Duck, dialect: SqlDialect) -> str:
    """What is wrong with the answer of a query; empty if nothing is."""
    sql = LIMIT.sub("", found.queries[number])
    expected = sorted(map(_plain, rows_of_arrow(duck.rows(sql))), key=repr)
    try:
        actual = sorted(map(_plain, _load(found, sql, duck, dialect)), key=repr)
    except NoAnswer as error:
        return f"has no answer, where DuckDB has NULL: {error}"
    if len(expected) != len(actual):
        return f"{len(actual)} rows instead of {len(expected)}"
    wrong = [pair for pair in zip(actual, expected, strict=True) if not _alike(*pair)]
    return f"{len(wrong)} of {len(actual)} rows differ: {wrong[0][0]} instead of {wrong[0][1]}" if wrong else ""


def _load(found: Collection, sql: str, duck: Duck, dialect: SqlDialect) -> list[Row]:
    from tests.plan.written import catalogue, contract, site

    meaning = read_query(sql, found.tables, dialect=dialect)
    project = catalogue([site("here")], (), found.tables.values(), [contract("c", "v", "here", 86_400)])
    plan = plan_views(project, {"v": blocks_of("v", meaning)}, PlanOptions())
    if plan.rejected:
        return [(f"refused: {plan.rejected[0].reason} {plan.rejected[0].detail}",)]
    with tempfile.TemporaryDirectory() as folder:
        world = RunningWorld(plan, {"v": meaning}, Path(folder))
        world.capture({name: _read_rows(duck, found.tables[name]) for name in world.sources})
        world.engine.load()
        return [row for row, weight in ZSet.of(rows_of_arrow(world.rows("c"))).items() for _ in range(weight)]


def _read_rows(duck: Duck, source: Source) -> ZSet:
    columns = source.columns or ()
    schema = pa.schema([(one.name, arrow_type(one.type)) for one in columns])
    return ZSet.of(rows_of_arrow(duck.rows(f"SELECT * FROM {source.name}").cast(schema)))


def _plain(row: Row) -> Row:
    """Numbers as such, whatever their types: averages are decimal in one and double in the other."""
    return tuple(round(float(value), 4) if isinstance(value, int | float | Decimal) else value for value in row)


def _alike(row: Row, other: Row) -> bool:
    return len(row) == len(other) and all(map(_is_close, row, other))


def _is_close(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-3) or (math.isnan(one) and math.isnan(other))
    return one == other


def say_answers(found: Collection, numbers: Sequence[int], dialect: SqlDialect) -> Iterator[str]:
    equal = 0
    with tempfile.TemporaryDirectory() as folder:
        duck = Duck(found, Path(folder))
        for number in numbers:
            began = time.process_time()
            wrong = compare(found, number, duck, dialect)
            equal += not wrong
            took = time.process_time() - began
            yield f"q{number:02}  {took:6.1f} s of processor  {wrong or 'equal'}"
    yield f"{equal} of {len(numbers)} answers are those of DuckDB"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("archive", type=Path, help="the source package of sqlglot")
    parser.add_argument("--dialect", type=SqlDialect, choices=tuple(SqlDialect), default=SqlDialect.SPARK)
    parser.add_argument("--answers", action="store_true", help="compare the answers with DuckDB's")
    parser.add_argument("--queries", type=lambda text: [int(one) for one in text.split(",")], help="only these")
    chosen = parser.parse_args(arguments)
    if not chosen.archive.is_file():
        parser.error(f'file "{chosen.archive}" does not exist')
    found = read_package(chosen.archive)
    if chosen.queries:
        found = replace(found, queries={number: found.queries[number] for number in chosen.queries})
    judged = list(judge_queries(found, chosen.dialect))
    print(*say(judged, (), 40), sep="\n")
    if chosen.answers:
        kept = [number for number, one in zip(found.queries, judged, strict=True) if one.outcome is Outcome.INCREMENTAL]
        for line in say_answers(found, kept, chosen.dialect):
            print(line, flush=True)


if __name__ == "__main__":
    main()
