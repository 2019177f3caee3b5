"""A delivered Delta table holds what the view holds, its changes lead there, and files stay few, whatever breaks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.connect.delta_delivery import DeliveredFolder, DeltaDelivery
from headrace.connect.delta_table import OwnTable
from headrace.meaning.zset import ZSet
from headrace.model.errors import Conflict, ConnectError, CopyChanged, Fenced
from headrace.model.relation import Field
from headrace.model.types import INT, STRING
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from tests.connect.delivered_views import COLUMNS, View, next_change, rows
from tests.examples import examples

SMALL = {"id": INT, "name": STRING}
ALL = {name: type_ for name, type_ in COLUMNS.items() if " " not in name}


class Crash(Exception):
    pass


@dataclass
class Fuse:
    """Burns down at the beginning and end of every commit; never if it is negative."""

    left: int = -1

    def burn(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash


class Breaking(OwnTable):
    """Breaks when its fuse has burnt down."""

    fuse: Fuse

    def create(self, *args: Any, **more: Any) -> None:
        self.fuse.burn()
        super().create(*args, **more)
        self.fuse.burn()

    def commit(self, *args: Any, **more: Any) -> None:
        self.fuse.burn()
        super().commit(*args, **more)
        self.fuse.burn()


def breaking(delivery: DeltaDelivery, fuse: Fuse) -> DeltaDelivery:
    for name in ("_table", "_changes"):
        table = getattr(delivery, name)
        changed = Breaking(**{one.name: getattr(table, one.name) for one in fields(OwnTable)})
        object.__setattr__(changed, "fuse", fuse)
        setattr(delivery, name, changed)
    return delivery


def folder_of(view: View, path: Path, **more: Any) -> DeliveredFolder:
    columns = tuple(Field(name, type_) for name, type_ in view.columns.items())
    return DeliveredFolder(path, columns, "p", "c", "v", "SELECT 1", 60.0, **more)


def held(folder: DeliveredFolder) -> ZSet:
    return ZSet.of(rows_of_arrow(DeltaTable(str(folder.path)).to_pyarrow_table()))


def changes_of(folder: DeliveredFolder) -> pa.Table:
    path = folder.path.with_name(f"{folder.path.name}_changes")
    return DeltaTable(str(path)).to_pyarrow_table()


def summed(folder: DeliveredFolder, upto: int) -> ZSet:
    found = changes_of(folder)
    weights = {"insert": 1, "delete": -1}
    return ZSet((row[2:], weights[row[1]]) for row in rows_of_arrow(found) if row[0] <= upto)  # type: ignore[index,operator]


def small(*ids: int, name: str | None = "a") -> ZSet:
    return ZSet([((number, name), 1) for number in ids])


@pytest.fixture
def view(tmp_path: Path) -> View:
    return View(tmp_path / "view", SMALL)


# Each example takes long, and shrinking tries hundreds.
FEW = settings(
    deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), max_examples=examples(25)
)


@settings(FEW)
@given(data=st.data())
def test_the_table_equals_the_view_after_every_delivery_whatever_breaks(data):
    with tempfile.TemporaryDirectory() as place:
        view = View(Path(place) / "view", ALL)
        folder = folder_of(view, Path(place) / "table", versions_kept_s=0.0)
        epoch, fuse, start = 1, Fuse(), None
        delivery = breaking(DeltaDelivery(folder, epoch), fuse)
        for _ in range(data.draw(st.integers(1, 6))):
            for _ in range(data.draw(st.integers(0, 2))):
                view.change(data.draw(next_change(view.now, rows(ALL))))
            fuse.left = data.draw(st.integers(-1, 9))
            if data.draw(st.booleans()):
                epoch += 1
                delivery = breaking(DeltaDelivery(folder, epoch), fuse)
            if data.draw(st.integers(0, 3)) == 0:
                view.compact()
            try:
                view.deliver_to(delivery)
            except Crash:
                view.change(data.draw(next_change(view.now, rows(ALL))))
                view.deliver_to(delivery)
            assert held(folder) == view.now
            start = view.now + -summed(folder, view.log.t) if start is None else start
            assert start + summed(folder, view.log.t) == view.now
            assert view.deliver_to(DeltaDelivery(folder, epoch)) == view.log.t


@settings(FEW, max_examples=10)
@given(data=st.data())
def test_duckdb_reads_the_same_rows(data, tmp_path_factory):
    place = tmp_path_factory.mktemp("duckdb")
    view = View(place / "view", ALL)
    folder = folder_of(view, place / "table")
    view.change(ZSet([(data.draw(rows(ALL)), 2), (data.draw(rows(ALL)), 1)]))
    view.deliver_to(DeltaDelivery(folder, 1))
    found = duckdb.read_parquet(DeltaTable(str(folder.path)).file_uris()).to_arrow_table()
    assert ZSet.of(rows_of_arrow(found)) == view.now


def test_nobody_sees_weights(view, tmp_path):
    folder = folder_of(view, tmp_path / "table")
    view.change(small(1, 1, 2))
    view.deliver_to(DeltaDelivery(folder, 1))
    view.change(small(3, 3) - small(1))
    view.deliver_to(DeltaDelivery(folder, 1))
    assert DeltaTable(str(folder.path)).to_pyarrow_table().column_names == ["id", "name"]
    t = view.log.t
    assert sorted(rows_of_arrow(changes_of(folder))) == [
        (t, "delete", 1, "a"),
        (t, "insert", 3, "a"),
        (t, "insert", 3, "a"),
    ]


def test_columns_of_changes_give_way_to_those_of_the_view(tmp_path):
    view = View(tmp_path / "view", {"t": INT, "_OP": INT})
    folder = folder_of(view, tmp_path / "table")
    view.deliver_to(DeltaDelivery(folder, 1))
    view.change(ZSet([((1, 2), 1)]))
    view.deliver_to(DeltaDelivery(folder, 1))
    assert changes_of(folder).to_pylist() == [{"__t": view.log.t, "__op": "insert", "t": 1, "_OP": 2}]


def test_files_stay_few(view, tmp_path):
    folder = folder_of(view, tmp_path / "table", versions_kept_s=0.0)
    delivery = DeltaDelivery(folder, 1)
    view.deliver_to(delivery)
    for number in range(20):
        view.change(small(*range(number, number + 5)))
        view.deliver_to(delivery)
        if number % 3 == 0:
            view.change(-small(number))
            view.deliver_to(delivery)
    assert held(folder) == view.now
    for path in (folder.path, tmp_path / "table_changes"):
        assert len(DeltaTable(str(path)).file_uris()) <= 10
        assert len(list(path.glob("*.parquet"))) <= 60


def test_old_changes_go(view, tmp_path):
    folder = folder_of(view, tmp_path / "table", changes_kept_s=100e-6)
    delivery = DeltaDelivery(folder, 1)
    view.deliver_to(delivery)
    for number in range(20):
        view.change(small(number), pause=50)
        view.deliver_to(delivery)
    times = changes_of(folder).column("t").to_pylist()
    assert view.log.t in times
    assert min(times) >= view.log.t - 1_000


def test_what_is_done_twice_is_refused(view, tmp_path):
    delivery = DeltaDelivery(folder_of(view, tmp_path / "table"), 1)
    delivery.start(arrow_table(SMALL, []), 10)
    changes = arrow_table(SMALL, [(1, "a")]).append_column("__w", [[1]])
    delivery.apply(changes, 10, 20)
    with pytest.raises(Conflict, match="is at 20, not at 10"):
        delivery.apply(changes, 10, 20)


def test_of_two_writers_that_read_the_same_version_one_fails(view, tmp_path):
    folder = folder_of(view, tmp_path / "table")
    delivery = DeltaDelivery(folder, 1)
    view.deliver_to(delivery)
    table = delivery._table
    first, second = (table.read(folder.fingerprint) for _ in range(2))
    assert first is not None and second is not None
    rows_ = arrow_table(SMALL, [(1, "a")])
    with table.report_errors():
        table.commit(first, rows_, (), replace(first.mark, step=1))
    with pytest.raises(Conflict, match="someone else has written"), table.report_errors():
        table.commit(second, rows_, (), replace(second.mark, step=1))


def test_a_service_that_was_replaced_is_fenced_off(view, tmp_path):
    folder = folder_of(view, tmp_path / "table")
    view.deliver_to(DeltaDelivery(folder, 1))
    view.change(small(1))
    view.deliver_to(DeltaDelivery(folder, 2))
    old = DeltaDelivery(folder, 1)
    for step in (old.delivered, old.drop, lambda: old.start(arrow_table(SMALL, []), 1)):
        with pytest.raises(Fenced, match="another service"):
            step()
    assert held(folder) == small(1)


def test_a_folder_that_is_not_ours_is_never_touched(view, tmp_path):
    file, other = tmp_path / "data" / "mine.txt", tmp_path / "other"
    file.parent.mkdir()
    file.write_text("mine")
    write_deltalake(str(other), pa.table({"a": [1]}))
    write_deltalake(str(tmp_path / "third_changes"), pa.table({"a": [1]}))
    for path in (file.parent, other, tmp_path / "third"):
        delivery = DeltaDelivery(folder_of(view, path), 1)
        for step in (delivery.delivered, delivery.drop, lambda one=delivery: one.start(arrow_table(SMALL, []), 1)):
            with pytest.raises(ConnectError, match="was not created by Headrace"):
                step()
    assert file.read_text() == "mine"
    assert DeltaTable(str(other)).to_pyarrow_table().num_rows == 1


def _delete_a_row(path: Path) -> None:
    DeltaTable(str(path)).delete("id = 1")


def _delete_all_rows(path: Path) -> None:
    DeltaTable(str(path)).delete()


def _add_a_row(path: Path) -> None:
    write_deltalake(str(path), pa.table({"id": pa.array([9], pa.int32()), "name": ["z"]}), mode="append")


def _add_a_column(path: Path) -> None:
    more = pa.table({"id": pa.array([9], pa.int32()), "name": ["z"], "more": [1]})
    write_deltalake(str(path), more, mode="append", schema_mode="merge")


def _delete_files(path: Path) -> None:
    for file in path.glob("*.parquet"):
        file.unlink()


def _change_files(path: Path) -> None:
    for file in path.glob("*.parquet"):
        file.write_bytes(bytes(reversed(file.read_bytes())))
        later = file.stat().st_mtime + 5
        os.utime(file, (later, later))


def _cut_the_log(path: Path) -> None:
    sorted(path.glob("_delta_log/*.json"))[-1].unlink()


def _damage_the_log(path: Path) -> None:
    for file in path.glob("_delta_log/*.json"):
        file.write_text("nothing of use")


CHANGES: list[tuple[Callable[[Path], None], str]] = [
    (_delete_a_row, "was added|instead of"),
    (_delete_all_rows, "0 rows instead of 3"),
    (_add_a_row, "was added"),
    (_add_a_column, "columns are others"),
    (_delete_files, "was deleted"),
    (_change_files, "was changed"),
    (_cut_the_log, "earlier version"),
    (_damage_the_log, "log damaged"),
    (shutil.rmtree, "was deleted"),
]


@pytest.mark.parametrize(("change", "said"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_whatever_someone_else_does_to_a_table_is_noticed_and_it_is_filled_again(view, tmp_path, change, said):
    folder = folder_of(view, tmp_path / "out")
    delivery = DeltaDelivery(folder, 1)
    view.change(small(1, 2))
    view.deliver_to(delivery)
    view.change(small(3))
    view.deliver_to(delivery)
    delivery.check(view.log.t)
    change(folder.path)
    with pytest.raises(CopyChanged, match=said):
        delivery.check(view.log.t)
    view.deliver_to(delivery, anew=True)
    delivery.check(view.log.t)
    assert held(folder) == small(1, 2, 3)
    view.change(-small(1))
    view.deliver_to(delivery)
    delivery.check(view.log.t)
    assert held(folder) == small(2, 3)


def test_files_of_changes_that_someone_deleted_are_noticed(view, tmp_path):
    delivery = DeltaDelivery(folder_of(view, tmp_path / "out"), 1)
    view.deliver_to(delivery)
    view.change(small(1))
    view.deliver_to(delivery)
    _delete_files(tmp_path / "out_changes")
    with pytest.raises(CopyChanged, match="was deleted"):
        delivery.check(view.log.t)
    view.deliver_to(delivery, anew=True)
    delivery.check(view.log.t)


def test_a_table_of_another_contract_is_refused(view, tmp_path):
    folder = folder_of(view, tmp_path / "table")
    view.deliver_to(DeltaDelivery(folder, 1))
    with pytest.raises(ConnectError, match="was not created by Headrace for this contract"):
        view.deliver_to(DeltaDelivery(replace(folder, contract="d"), 1))


def test_a_view_with_other_columns_or_another_meaning_begins_anew(view, tmp_path):
    folder = folder_of(view, tmp_path / "table")
    view.change(small(1))
    view.deliver_to(DeltaDelivery(folder, 1))
    wider = View(tmp_path / "wider", {**SMALL, "more": INT})
    wider.change(ZSet([((1, "a", 2), 1)]))
    wide = folder_of(wider, tmp_path / "table")
    wider.deliver_to(DeltaDelivery(wide, 1))
    assert held(wide) == wider.now
    other = View(tmp_path / "other", wider.columns)
    other.change(ZSet([((2, "b", 2), 1)]))
    assert other.log.t == wider.log.t
    other.deliver_to(DeltaDelivery(replace(wide, meaning="SELECT 2"), 1))
    assert held(wide) == other.now
    wider.deliver_to(DeltaDelivery(wide, 1))
    assert held(wide) == wider.now
    assert {row[1] for row in rows_of_arrow(changes_of(wide))} == {"insert", "delete"}


def test_dropped_tables_are_gone_and_may_be_dropped_again(view, tmp_path):
    delivery = DeltaDelivery(folder_of(view, tmp_path / "there" / "table"), 1)
    delivery.drop()
    view.deliver_to(delivery)
    delivery.drop()
    delivery.drop()
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("columns", [{"a b": INT}, {"a": INT, "A": INT}])
def test_names_that_delta_cannot_have_are_refused(tmp_path, columns):
    view = View(tmp_path / "view", columns)
    with pytest.raises(ConnectError, match='of view "v" cannot be delivered to a Delta table'):
        DeltaDelivery(folder_of(view, tmp_path / "table"), 1)
