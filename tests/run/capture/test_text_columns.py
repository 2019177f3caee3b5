"""Texts of PostgreSQL in Arrow columns are read as they are one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Type,
)
from headrace.run.capture.text_values import NoSuchValue, column_of, column_of_texts

TEXTS: list[tuple[Type, list[bytes | None]]] = [
    (BIGINT, [b"1", None, b"-9223372036854775808"]),
    (BOOLEAN, [b"t", b"f", None]),
    (DOUBLE, [b"1.5", b"NaN", b"-0", b"1e300", None]),
    (DOUBLE, [b"Infinity", b"-Infinity"]),
    (STRING, [b"", None, "naïve".encode(), b'a "b",\nc']),
    (BINARY, [b"\\x00ff", b"\\x", None]),
    (DATE, [b"2026-02-28", None]),
    (DATE, [b"infinity", b"0044-03-15 BC", b"12026-01-01"]),
    (TIMESTAMP, [b"2026-02-28 01:02:03.5+00", None]),
    (TIMESTAMP, [b"2026-02-28 01:02:03.5", b"2026-02-28 01:02:03"]),
    (TIMESTAMP, [b"infinity", b"2026-02-28 01:02:03+00"]),
    (TIMESTAMP, [None, None]),
    (Decimal(8, 2), [b"7.50", b"7", b"7.005", None]),
    (Array(BIGINT), [b"{1,NULL,3}", b"{}", None]),
]


@pytest.mark.parametrize(("type_", "texts"), TEXTS)
def test_a_column_of_texts_has_the_values_of_its_texts(type_: Type, texts: list[bytes | None]) -> None:
    found = column_of_texts(pa.array(texts, pa.binary()), type_)
    expected = column_of(texts, type_)
    assert found.type == expected.type
    assert str(found.to_pylist()) == str(expected.to_pylist())


def test_a_text_without_a_value_is_named() -> None:
    with pytest.raises(NoSuchValue, match="the value x7 is none of bigint"):
        column_of_texts(pa.array([b"1", b"x7"], pa.binary()), BIGINT)
