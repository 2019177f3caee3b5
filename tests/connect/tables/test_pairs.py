"""Tables of pairs: what is read from Parquet and CSV, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from headrace.connect.tables.files import format_of
from headrace.connect.tables.pairs import PairTable, read_pairs
from headrace.model.errors import InputError, UsageError


def table_file(folder: Path, form: str = "parquet", **columns: Any) -> Path:
    file = folder / f"pairs.{form}"
    table = pa.table({"a": ["x", "y"], "b": ["y", "z"], "rate_ab": [1, 2], "rate_ba": [3, 4], **columns})
    if form == "parquet":
        pq.write_table(table, file)
    else:
        csv.write_csv(table, file)
    return file


def read(file: Path) -> PairTable:
    return read_pairs(file, format_of(file))


def mistake(file: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(file)
    return str(caught.value)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_devices_are_numbered_in_the_order_of_their_names(tmp_path: Path, form: str):
    table = read(table_file(tmp_path, form, a=["z", "x"], b=["x", "y"]))
    assert [table.name(number) for number in range(table.numbers)] == ["x", "y", "z"]
    assert (table.a.tolist(), table.b.tolist(), table.devices) == ([2, 0], [0, 1], 3)
    assert (table.number("y"), table.number("nobody")) == (1, None)


def test_integer_devices_far_apart_are_numbered_without_the_gaps(tmp_path: Path):
    table = read(table_file(tmp_path, a=[10**15, 7], b=[7, -5]))
    assert table.numbers == table.devices == 3
    assert [table.name(number) for number in range(3)] == ["-5", "7", str(10**15)]


def test_integer_devices_close_together_are_their_own_numbers(tmp_path: Path):
    table = read(table_file(tmp_path, a=[11, 12], b=[12, 14]))
    assert (table.a.tolist(), table.b.tolist(), table.devices, table.numbers) == ([0, 1], [1, 3], 3, 4)
    assert (table.name(3), table.number("14"), table.number("15")) == ("14", 3, None)


def test_names_in_csv_stay_text(tmp_path: Path):
    file = tmp_path / "pairs.csv"
    file.write_text("a,b,rate_ab,rate_ba\n7,007,1,2\n")
    assert read(file).devices == 2


def test_whole_rates_are_not_scaled_even_when_stored_as_floats(tmp_path: Path):
    table = read(table_file(tmp_path, rate_ab=[1.0, 2.0]))
    assert (table.scale, table.rate_ab.tolist()) == (1, [1, 2])


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_other_rates_are_scaled_by_a_million_and_rounded_half_to_even(tmp_path: Path, form: str):
    table = read(table_file(tmp_path, form, rate_ab=[0.5, 0.0000025], rate_ba=[2, 3]))
    assert table.scale == 1_000_000
    assert (table.rate_ab.tolist(), table.rate_ba.tolist()) == ([500_000, 2], [2_000_000, 3_000_000])


def test_decimals_are_scaled_exactly(tmp_path: Path):
    table = read(table_file(tmp_path, rate_ab=[Decimal("0.1"), Decimal("123456789012.0000015")]))
    assert table.rate_ab.tolist() == [100_000, 123456789012_000_002]


def test_a_csv_whose_later_rates_are_fractions_is_read_whole(tmp_path: Path):
    file = tmp_path / "pairs.csv"
    rows = "\n".join(f"x{row},y,1,2" for row in range(1000))
    file.write_text(f"a,b,rate_ab,rate_ba\n{rows}\nlast,y,0.5,1\n")
    assert read(file).rate_ab.tolist()[-2:] == [1_000_000, 500_000]


def test_a_table_without_rows_has_no_views(tmp_path: Path):
    table = read(table_file(tmp_path, a=pa.array([], "string"), b=pa.array([], "string"), rate_ab=[], rate_ba=[]))
    assert (len(table.a), table.devices) == (0, 0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": ["x", "z"]}, 'device "z" is paired with itself (row 2)'),
        ({"rate_ab": [1, -5]}, 'rate -5 is negative (row 2, column "rate_ab")'),
        (
            {"rate_ba": [float("nan"), float("inf")]},
            'rate nan is not finite (row 1, column "rate_ba"); 2 rows are like this',
        ),
        ({"rate_ab": [1, None]}, 'a value is missing (row 2, column "rate_ab")'),
        ({"b": [None, "x"]}, 'a value is missing (row 1, column "b")'),
        ({"rate_ab": [1e30, 0.5]}, "rate 1e+30 is too large"),
        ({"rate_ab": ["1", "2"]}, 'column "rate_ab" holds string, not numbers'),
        ({"b": ["cloud", "x"]}, '"cloud" is reserved and cannot name a device (row 1, column "b")'),
        ({"a": ["", "x"]}, 'a device has no name (row 1, column "a")'),
    ],
)
def test_a_mistake_is_named_with_its_row(tmp_path: Path, columns: dict[str, Any], message: str):
    assert message in mistake(table_file(tmp_path, **columns))


def test_the_line_of_a_csv_is_named(tmp_path: Path):
    assert "pairs.csv:3:1" in mistake(table_file(tmp_path, "csv", rate_ab=[1, -5]))


def test_missing_columns_are_all_named(tmp_path: Path):
    file = tmp_path / "pairs.csv"
    file.write_text("a,c,rate_ab\nx,y,1\n")
    assert 'column "b" is missing' in mistake(file)
    assert 'column "rate_ba" is missing' in mistake(file)


def test_an_empty_file_a_folder_and_no_file_are_refused(tmp_path: Path):
    (tmp_path / "empty.csv").touch()
    with pytest.raises(InputError, match="the file is empty"):
        format_of(tmp_path / "empty.csv")
    with pytest.raises(UsageError, match="is a folder"):
        format_of(tmp_path)
    with pytest.raises(UsageError, match="no file"):
        format_of(tmp_path / "missing.csv")


def test_a_file_that_is_no_table_is_refused(tmp_path: Path):
    file = tmp_path / "pairs.parquet"
    file.write_bytes(b"not a table")
    assert "the table cannot be read" in mistake(file)
