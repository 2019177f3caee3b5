"""Tables of follows and rates: what is read from Parquet and CSV, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from headrace.connect.tables import follows as module
from headrace.connect.tables.follows import FollowTable, read_follows
from headrace.model.errors import InputError, UsageError

Columns = dict[str, Any]

PRODUCERS: Columns = {"producer": ["p", "q", "r"], "rate": [1.0, 0.5, 0.0]}
CONSUMERS: Columns = {"consumer": ["c", "d"], "rate": [2.0, 3.0]}
FOLLOWS: Columns = {"consumer": ["d", "c", "d"], "producer": ["q", "p", "r"]}


def write(file: Path, columns: Columns) -> Path:
    table = pa.table(columns)
    csv.write_csv(table, file) if file.suffix == ".csv" else pq.write_table(table, file)
    return file


def read(
    folder: Path,
    follows: Columns = FOLLOWS,
    producers: Columns = PRODUCERS,
    consumers: Columns = CONSUMERS,
    form: str = "parquet",
) -> FollowTable:
    return read_follows(
        write(folder / f"f.{form}", follows),
        write(folder / f"p.{form}", producers),
        write(folder / f"c.{form}", consumers),
    )


def mistake(
    folder: Path, follows: Columns = FOLLOWS, producers: Columns = PRODUCERS, consumers: Columns = CONSUMERS
) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, follows, producers, consumers)
    return str(caught.value)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_follows_become_the_rows_of_those_they_name(tmp_path: Path, form: str):
    table = read(tmp_path, form=form)
    assert table.consumer.tolist() == [1, 0, 1]
    assert table.producer.tolist() == [1, 0, 2]
    assert table.event_rate.tolist() == [1.0, 0.5, 0.0]
    assert table.query_rate.tolist() == [2.0, 3.0]
    assert table.find("d", "r") == 2
    assert table.find("c", "r") is None
    assert table.find("nobody", "r") is None


@pytest.mark.parametrize("apart", [1, 10**12], ids=["close together", "far apart"])
def test_integers_may_lie_anywhere(tmp_path: Path, apart: int):
    ids = [-5 * apart, 0, 7 * apart]
    table = read(
        tmp_path,
        {"consumer": [3, 4], "producer": [ids[2], ids[0]]},
        {"producer": ids, "rate": [1, 2, 3]},
        {"consumer": pa.array([4, 3], pa.uint8()), "rate": [Decimal("0.5"), Decimal("1.25")]},
    )
    assert table.producer.tolist() == [2, 0]
    assert table.consumer.tolist() == [1, 0]
    assert table.query_rate.tolist() == [0.5, 1.25]
    assert table.find("3", str(ids[2])) == 0
    assert table.find("3", "x") is None
    message = mistake(
        tmp_path,
        follows={"consumer": [3], "producer": [2 * apart]},
        producers={"producer": ids, "rate": [1, 2, 3]},
        consumers={"consumer": [3], "rate": [1]},
    )
    assert f'producer "{2 * apart}" has no rate (row 1, column "producer")' in message


def test_identifiers_in_csv_stay_text(tmp_path: Path):
    table = read(
        tmp_path,
        {"consumer": ["007"], "producer": ["1"]},
        {"producer": ["1", "01"], "rate": [1, 2]},
        {"consumer": ["7", "007"], "rate": [1, 2]},
        form="csv",
    )
    assert (table.consumer.tolist(), table.producer.tolist()) == ([1], [0])


def test_prices_of_producers_are_read_where_there_are_any(tmp_path: Path):
    table = read(tmp_path, producers={**PRODUCERS, "L": [1, 2, 3], "note": ["x", "y", "z"]})
    assert {name: prices.tolist() for name, prices in table.prices.items()} == {"L": [1.0, 2.0, 3.0]}


def test_many_rows_in_many_groups_are_read_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.connect.tables.files.BATCH_ROWS", 7)
    monkeypatch.setattr(module, "SORTED_TOGETHER", 11)
    rng = np.random.default_rng(1)
    keys = rng.permutation(100 * 100)[:500]
    names = [f"x{n}" for n in range(100)]
    rates = {"rate": list(range(100))}
    follows = {"consumer": [names[k // 100] for k in keys], "producer": [names[k % 100] for k in keys]}
    table = read(tmp_path, follows, {"producer": names, **rates}, {"consumer": names, **rates})
    assert (table.consumer * 100 + table.producer == keys).all()
    follows = {column: [*values, values[3]] for column, values in follows.items()}
    message = mistake(
        tmp_path, follows=follows, producers={"producer": names, **rates}, consumers={"consumer": names, **rates}
    )
    assert 'twice (row 501, column "producer")' in message


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"follows": {"consumer": ["c"], "producers": ["p"]}}, 'column "producer" is missing'),
        ({"follows": {"consumer": ["c", "c"], "producer": ["p", "p"]}},
         'consumer "c" follows producer "p" twice (row 2, column "producer")'),
        ({"follows": {"consumer": ["x"], "producer": ["p"]}}, 'consumer "x" has no rate (row 1, column "consumer")'),
        ({"follows": {"consumer": ["c", None], "producer": ["p", "q"]}},
         'a value is missing (row 2, column "consumer")'),
        ({"follows": {"consumer": [1], "producer": ["p"]}}, 'column "consumer" holds integers, but text in'),
        ({"follows": {"consumer": [1.5], "producer": ["p"]}}, 'column "consumer" holds double'),
        ({"follows": {"consumer": [], "producer": []}}, "the table has no rows"),
        ({"producers": {"producer": ["p", "q", "p"], "rate": [1, 2, 3]}}, 'producer "p" is there twice (row 3'),
        ({"producers": {"producer": ["p", "q", "r"], "rate": [1, -2, -3]}},
         '-2.0 is negative (row 2, column "rate"); 2 rows are like this'),
        ({"producers": {"producer": ["p", "q", "r"], "rate": [1, 2, float("nan")]}}, "nan is not finite (row 3"),
        ({"producers": {"producer": ["p", "q", "r"], "rate": [1, 2, float("inf")]}}, "inf is not finite (row 3"),
        ({"producers": {"producer": ["p", "q", "r"], "rate": [1, None, 2]}},
         'a value is missing (row 2, column "rate")'),
        ({"producers": {"producer": ["p", "q", "r"], "rate": ["1", "2", "3"]}},
         'column "rate" holds string, not numbers'),
        ({"producers": {"producer": [], "rate": []}}, 'producer "q" has no rate (row 1'),
        ({"consumers": {"consumer": [7, 7], "rate": [1, 1]}, "follows": {"consumer": [7], "producer": ["p"]}},
         'consumer "7" is there twice (row 1'),
        ({"consumers": {"consumer": ["c", "d"], "speed": [1, 1]}}, 'column "rate" is missing'),
    ],
)  # fmt: skip
def test_a_mistake_in_a_table_is_named_with_its_row(tmp_path: Path, tables: Columns, message: str):
    assert message in mistake(tmp_path, **tables)


def test_a_rate_that_is_no_number_in_csv_is_refused(tmp_path: Path):
    follows, consumers = write(tmp_path / "f.csv", FOLLOWS), write(tmp_path / "c.csv", CONSUMERS)
    (tmp_path / "p.csv").write_text("producer,rate\np,fast\nq,1\nr,1\n")
    with pytest.raises(InputError, match="fast"):
        read_follows(follows, tmp_path / "p.csv", consumers)


def test_a_file_that_is_empty_missing_or_json_is_refused(tmp_path: Path):
    follows, consumers = write(tmp_path / "f.parquet", FOLLOWS), write(tmp_path / "c.parquet", CONSUMERS)
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "rates.json").write_text("{}")
    with pytest.raises(InputError, match="empty"):
        read_follows(follows, tmp_path / "empty.parquet", consumers)
    with pytest.raises(UsageError, match="no file"):
        read_follows(follows, tmp_path / "nowhere.parquet", consumers)
    with pytest.raises(UsageError, match="is JSON"):
        read_follows(follows, tmp_path / "rates.json", consumers)
