"""Exports: the rows of a view go to a file a part at a time, and the file is there only when it is complete."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from headrace.connect.tables.output import write_tables
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import PostgresTable
from headrace.model.errors import UsageError
from headrace.run.rows.arrow import rows_of_arrow
from headrace.site.asked import RowsAsked
from headrace.site.reading import ViewReader
from headrace.testing.worlds import RunningWorld
from tests.run.test_engine import SITES, world_of

PART = 10
ROWS = 500


@dataclass
class Counted:
    """Parts on their way to a file: how many rows of them are held at most."""

    parts: Iterator[pa.Table]
    held: int = 0
    most: int = 0
    passed: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[pa.Table]:
        for part in self.parts:
            self.held += part.num_rows
            self.most = max(self.most, self.held)
            self.passed.append(part.num_rows)
            weakref.finalize(part, self._let_go, part.num_rows)
            yield part
            del part

    def _let_go(self, rows: int) -> None:
        self.held -= rows


@pytest.fixture
def world(tmp_path: Path) -> RunningWorld:
    """A base of many rows; changes after it repeat some and take others away."""
    found = world_of(["SELECT k, label FROM s"], SITES[0], tmp_path / "world")
    rows = [(number, None, None, f"label {number}", None) for number in range(ROWS)]
    found.capture({"s": ZSet.of(rows)})
    found.engine.load()
    found.capture({"s": ZSet.of(rows[:3]) + -ZSet.of(rows[100:105])})
    assert [one.error for one in found.engine.push(sorted(found.program.tasks), found.now) if one.error] == []
    return found


def reader_of(world: RunningWorld) -> ViewReader:
    """Readers say how far a view is behind its databases."""
    catalogue = world.plan.catalogue
    origin = PostgresTable("postgresql://nowhere", "s")
    sources = {name: replace(source, origin=origin) for name, source in catalogue.sources.items()}
    plan = replace(world.plan, catalogue=replace(catalogue, sources=sources))
    return ViewReader(plan, world.program, world.ledger, world.store)


def export(world: RunningWorld, out: Path, limit: int | None = None, asked: RowsAsked | None = None) -> Counted:
    seen, parts = reader_of(world).rows_in_parts("v0", limit, asked, part_rows=PART)
    counted = Counted(parts)
    assert write_tables(counted, seen.rows.schema, out) == sum(counted.passed)
    return counted


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_parts_are_written_one_after_another_and_are_all_rows(world: RunningWorld, tmp_path: Path, name: str) -> None:
    counted = export(world, tmp_path / name)
    assert len(counted.passed) >= ROWS // PART and max(counted.passed) <= PART
    assert counted.most <= 2 * PART, "of the view only a part is held, while the next is read"
    read = parquet.read_table if name.endswith("parquet") else csv.read_csv
    written = read(tmp_path / name)
    assert sorted(map(str, rows_of_arrow(written))) == sorted(map(str, rows_of_arrow(world.rows("c_v0"))))
    assert written.num_rows == ROWS - 2


def test_only_what_is_asked_for_is_written(world: RunningWorld, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    counted = export(world, out, limit=25)
    assert parquet.read_table(out).num_rows == 25 and len(counted.passed) <= 4, "no more is read than is asked for"
    export(world, out, asked=RowsAsked(where="k >= 490"))
    assert sorted(parquet.read_table(out)["k"].to_pylist()) == list(range(490, ROWS))
    export(world, out, limit=3, asked=RowsAsked(order="k desc"))
    assert parquet.read_table(out)["k"].to_pylist() == [499, 498, 497]
    export(world, out, limit=0)
    assert parquet.read_table(out).num_rows == 0


def test_an_export_that_is_interrupted_leaves_the_earlier_file(world: RunningWorld, tmp_path: Path) -> None:
    out = tmp_path / "out" / "rows.parquet"
    out.parent.mkdir()
    for earlier in (None, b"earlier"):
        if earlier is not None:
            out.write_bytes(earlier)
        seen, parts = reader_of(world).rows_in_parts("v0", part_rows=PART)

        def interrupted(parts: Iterator[pa.Table] = parts) -> Iterator[pa.Table]:
            yield next(parts)
            yield next(parts)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write_tables(interrupted(), seen.rows.schema, out)
        assert [file.name for file in out.parent.iterdir()] == ([] if earlier is None else ["rows.parquet"])
        assert earlier is None or out.read_bytes() == earlier


def test_files_that_upkeep_deletes_meanwhile_are_read_to_the_end(world: RunningWorld, tmp_path: Path) -> None:
    _, parts = reader_of(world).rows_in_parts("v0", part_rows=PART)
    read = next(parts).num_rows
    for site, file, _ in list(world.store.list()):
        world.store.delete(site, file)
    assert read + sum(part.num_rows for part in parts) == ROWS - 2


def test_rows_that_cannot_be_read_are_no_fault_of_the_file(tmp_path: Path) -> None:
    def damaged() -> Iterator[pa.Table]:
        yield pa.ipc.open_file(pa.py_buffer(b"no Arrow file")).read_all()

    with pytest.raises(pa.ArrowInvalid):
        write_tables(damaged(), pa.schema({"a": pa.int32()}), tmp_path / "rows.csv")
    assert list(tmp_path.iterdir()) == []


def test_what_a_file_cannot_hold_is_said_and_no_file_is_made(tmp_path: Path) -> None:
    lists = pa.table({"lists": pa.array([[1], [2]])})
    with pytest.raises(UsageError, match="cannot hold these rows"):
        write_tables([lists], lists.schema, tmp_path / "rows.csv")
    assert list(tmp_path.iterdir()) == []
