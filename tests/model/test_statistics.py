from __future__ import annotations

import dataclasses

from headrace.model.catalogue import Source, SourceColumn, SourceKind
from headrace.model.errors import Location
from headrace.model.statistics import distinct_of, rate_of, row_width_of, rows_of, width_of
from headrace.model.types import BIGINT, BINARY, BOOLEAN, STRING, Array, Decimal

ID = SourceColumn("id", BIGINT)
NAME = SourceColumn("name", STRING)
TABLE = Source(
    name="people",
    kind=SourceKind.TABLE,
    site="us",
    key=("id",),
    columns=(ID, NAME),
    rows=1000,
    rate=5,
    static=False,
    parent_first=False,
    stays=None,
    time=None,
    retention_s=None,
    origin=None,
    declared_at=Location("headrace.yml"),
)


def test_default_width_is_the_size_of_the_type() -> None:
    types = (BOOLEAN, BIGINT, STRING, BINARY, Decimal(10, 2), Array(BIGINT))
    assert [width_of(SourceColumn("c", type_)) for type_ in types] == [1, 8, 24, 64, 16, 16]
    assert width_of(SourceColumn("c", STRING, width=100)) == 100
    assert row_width_of(TABLE) == 32
    assert row_width_of(dataclasses.replace(TABLE, columns=None)) == 0


def test_default_distinct_is_all_rows_for_a_single_column_key() -> None:
    assert distinct_of(TABLE, ID) == 1000
    assert distinct_of(TABLE, NAME) == 110
    assert distinct_of(TABLE, SourceColumn("id", BIGINT, distinct=7)) == 7
    assert distinct_of(dataclasses.replace(TABLE, key=("id", "name")), ID) == 110
    assert distinct_of(dataclasses.replace(TABLE, rows=3), NAME) == 3


def test_rows_of_a_stream_are_its_rate_times_its_retention() -> None:
    stream = dataclasses.replace(TABLE, kind=SourceKind.STREAM, rows=None, rate=10, retention_s=3600)
    assert rows_of(stream) == 36000


def test_a_static_source_has_no_changes() -> None:
    assert rate_of(dataclasses.replace(TABLE, static=True, rate=None)) == 0
    assert rate_of(TABLE) == 5


def test_unknown_statistics_are_assumed() -> None:
    unknown = dataclasses.replace(TABLE, rows=None, rate=None)
    assert rows_of(unknown) > 0
    assert rate_of(unknown) > 0
