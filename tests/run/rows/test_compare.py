"""The comparer against its definition: the rows themselves, compared one by one."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.types import Array, Decimal, Kind, Row, Simple, Type, Value
from headrace.run.rows import compare as module
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import WEIGHT
from headrace.run.rows.compare import Parts, add_weights, compare
from headrace.run.rows.equal import Mask
from headrace.run.rows.same_rows import differing

LONG = "a text that is longer than what is hashed together with others " * 8
VALUES: dict[Type, list[Value]] = {
    Simple(Kind.BIGINT): [None, 0, 1, -1, 2**62, -2960836687051489901],
    Simple(Kind.TINYINT): [None, 0, 1, 127],
    Simple(Kind.BOOLEAN): [None, True, False],
    Simple(Kind.STRING): [None, "", "a", "b", "\x00", "äöü", LONG, LONG + "x"],
    Simple(Kind.BINARY): [None, b"", b"a", b"\x00"],
    Simple(Kind.DOUBLE): [None, 0.0, -0.0, 1.0, 1e300, 5e-324, 1.5e-310, math.nan, math.inf, -math.inf, 1 / 3],
    Simple(Kind.FLOAT): [None, 0.0, 0.5, 0.1, math.nan],
    Simple(Kind.DATE): [None, dt.date(1, 1, 1), dt.date(2024, 2, 29)],
    Simple(Kind.TIMESTAMP): [None, dt.datetime(2024, 2, 29, 1, 2, 3, 4), dt.datetime(1, 1, 1)],
    Decimal(20, 2): [None, decimal.Decimal("0.00"), decimal.Decimal("-1.10"), decimal.Decimal(10**17)],
    Array(Simple(Kind.STRING)): [None, (), ("a",), ("a", None), ("",)],
    Array(Simple(Kind.DOUBLE)): [None, (), (1.0, math.nan), (0.0,)],
}


@st.composite
def corrupted(draw: st.DrawFn) -> tuple[dict[str, Type], list[Row], list[Row]]:
    """A table without a key, and a copy in which some rows are missing, repeated, changed or added."""
    floats = st.sampled_from([Simple(Kind.DOUBLE), Simple(Kind.BIGINT)])
    types = draw(st.lists(st.one_of(floats, st.sampled_from(list(VALUES))), min_size=1, max_size=4))
    row = st.tuples(*(st.sampled_from(VALUES[type_]) for type_ in types))
    rows = draw(st.lists(row, max_size=12))
    copy: list[Row] = []
    for one in rows:
        match draw(st.sampled_from(["kept", "kept", "kept", "missing", "repeated", "changed", "rounded"])):
            case "missing":
                continue
            case "repeated":
                copy += [one, one]
            case "changed":
                copy.append(draw(row))
            case "rounded":
                copy.append(_rounded(one, draw(st.sampled_from([1e-15, 1e-12, 1e-8, -1e-13]))))
            case _:
                copy.append(one)
    copy += draw(st.lists(row, max_size=2))
    return {f"c{number}": type_ for number, type_ in enumerate(types)}, rows, draw(st.permutations(copy))


def _rounded(row: Row, by: float) -> Row:
    return tuple(value * (1 + by) if isinstance(value, float) else value for value in row)


def parts_of(table: pa.Table, at_once: int = 3) -> Parts:
    def parts() -> Iterator[pa.Table]:
        for start in range(0, table.num_rows, at_once):
            yield add_weights(table.slice(start, at_once))

    return parts


def found_by_rows(expected: pa.Table, actual: pa.Table) -> tuple[int, int]:
    missing, extra = differing(rows_of_arrow(expected), rows_of_arrow(actual))
    return len(missing), len(extra)


@pytest.mark.parametrize("rows_at_once", [1, 1000])
@given(corrupted())
def test_differences_are_those_that_comparing_rows_finds(
    rows_at_once: int, case: tuple[dict[str, Type], list[Row], list[Row]]
) -> None:
    types, expected_rows, actual_rows = case
    expected, actual = arrow_table(types, expected_rows), arrow_table(types, actual_rows)
    found = compare(parts_of(expected), parts_of(actual, 5), rows_at_once)
    assert (found.missing, found.extra) == found_by_rows(expected, actual)
    assert found.rows == len(actual_rows)
    assert len(found.examples_missing) == min(found.missing, len(set(map(str, found.examples_missing))))
    assert Counter(map(str, found.examples_missing)) <= Counter(map(str, rows_of_arrow(expected)))
    assert Counter(map(str, found.examples_extra)) <= Counter(map(str, rows_of_arrow(actual)))


@pytest.mark.parametrize("by", [2e-9, 1e-8, -5e-9, 1e-7])
def test_a_float_that_is_off_by_more_than_the_tolerance_is_found(by: float) -> None:
    values = [1.0, 1.5, 1 / 3, 7e200, -3e-200]
    for value in values:
        right, wrong = (pa.table({"id": [1], "x": [one]}) for one in (value, value * (1 + by)))
        found = compare(parts_of(right), parts_of(wrong))
        assert (found.missing, found.extra) == (1, 1), value


def test_null_is_no_other_value_of_any_type() -> None:
    for type_, values in VALUES.items():
        for value in values[1:]:
            null, other = (arrow_table({"x": type_, "y": type_}, [(one, values[1])]) for one in (None, value))
            found = compare(parts_of(null), parts_of(other))
            assert (found.missing, found.extra) == (1, 1), (type_, value)


@given(corrupted(), st.randoms(use_true_random=False))
def test_changes_that_cancel_each_other_make_no_difference(
    case: tuple[dict[str, Type], list[Row], list[Row]], order: random.Random
) -> None:
    types, rows, others = case
    table, noise = arrow_table(types, rows), arrow_table(types, others)
    came, went = add_weights(noise), add_weights(noise)
    went = went.set_column(went.num_columns - 1, WEIGHT, pa.array(-np.ones(noise.num_rows, np.int64)))
    changes = [add_weights(table), came, went]
    order.shuffle(changes)
    assert compare(parts_of(table), lambda: changes).equal


@pytest.mark.parametrize("seed", range(3))
def test_a_few_wrong_rows_of_many_are_named(seed: int) -> None:
    chance = np.random.default_rng(seed)
    size = 50_000
    table = pa.table(
        {
            "id": chance.permutation(size),
            "text": [f"row {number % 1000}" for number in range(size)],
            "score": chance.normal(size=size),
        }
    )
    rounded = table.set_column(2, "score", pa.array(table.column("score").to_numpy() * (1 + 1e-13)))
    assert compare(parts_of(table, 7_000), parts_of(rounded, 9_000)).equal
    wrong = rows_of_arrow(rounded)
    lost, changed = sorted(chance.choice(size, 2, replace=False).tolist())
    kept = (wrong[changed][0], "other", wrong[changed][2])
    corrupt = arrow_table(
        {"id": Simple(Kind.BIGINT), "text": Simple(Kind.STRING), "score": Simple(Kind.DOUBLE)},
        [*wrong[:lost], *wrong[lost + 1 : changed], kept, *wrong[changed + 1 :]],
    )
    found = compare(parts_of(table, 7_000), parts_of(corrupt, 9_000))
    assert (found.rows, found.missing, found.extra) == (size - 1, 2, 1)
    assert {row[0] for row in found.examples_missing} == {wrong[lost][0], wrong[changed][0]}
    assert found.examples_extra == (kept,)


def test_floats_alone_are_compared_in_time() -> None:
    chance = np.random.default_rng(1)
    table = pa.table({"score": chance.normal(size=20_000), "same": np.zeros(20_000)})
    noisy = pa.table({"score": table.column("score").to_numpy() * (1 + 3e-11), "same": np.zeros(20_000)})
    assert compare(parts_of(table, 9_000), parts_of(noisy, 9_000)).equal
    far = pa.table({"score": table.column("score").to_numpy() * (1 + 3e-8), "same": np.zeros(20_000)})
    found = compare(parts_of(table, 9_000), parts_of(far, 9_000))
    assert (found.missing, found.extra) == (20_000, 20_000)


def test_what_is_held_does_not_grow_with_rows_that_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read again only for buckets that differ, and only those rows are held."""
    held = []
    real = module._entries

    def entries(parts: Parts, buckets: Mask, sign: int) -> Iterator[module._Part]:
        for part in real(parts, buckets, sign):
            held.append(len(part.hashes))
            yield part

    monkeypatch.setattr(module, "_entries", entries)
    size = 200_000
    table = pa.table({"id": np.arange(size)})
    assert compare(parts_of(table, 50_000), parts_of(table, 60_000)).equal
    assert held == []
    found = compare(parts_of(table, 50_000), parts_of(table.slice(1), 60_000))
    assert (found.missing, found.extra, found.examples_missing) == (1, 0, ((0,),))
    assert sum(held) < 100


def test_types_of_one_kind_that_differ_in_width_hold_equal_rows() -> None:
    narrow, wide = pa.table({"n": pa.array([1, None], pa.int8())}), pa.table({"n": pa.array([1, None], pa.int64())})
    assert compare(parts_of(narrow), parts_of(wide)).equal


def test_a_row_may_have_more_columns_than_a_mask_has_bits() -> None:
    names = [f"c{number}" for number in range(130)]
    rows: Iterable[pa.Table] = [pa.table({name: pa.array([None], pa.int32()) for name in names})]
    (row,) = rows
    other = row.set_column(129, "c129", pa.array([0], pa.int32()))
    assert compare(parts_of(row), parts_of(row)).equal
    assert not compare(parts_of(row), parts_of(other)).equal
