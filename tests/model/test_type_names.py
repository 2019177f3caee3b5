from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model import types
from headrace.model.type_names import NAMES, type_named
from headrace.model.types import Array, Decimal, Type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bigint", types.BIGINT),
        ("BIGINT", types.BIGINT),
        ("int8", types.BIGINT),
        ("int4", types.INT),
        ("serial", types.INT),
        ("smallint", types.SMALLINT),
        ("float", types.FLOAT),
        ("float8", types.DOUBLE),
        ("double precision", types.DOUBLE),
        ("text", types.STRING),
        ("varchar(20)", types.STRING),
        ("character varying(20)", types.STRING),
        ("uuid", types.STRING),
        ("jsonb", types.STRING),
        ("bytea", types.BINARY),
        ("timestamptz", types.TIMESTAMP),
        ("timestamp(3) without time zone", types.TIMESTAMP),
        ("timestamp  with time zone", types.TIMESTAMP),
        ("numeric(12,2)", Decimal(12, 2)),
        ("decimal( 12 , 2 )", Decimal(12, 2)),
        ("decimal(5)", Decimal(5, 0)),
        ("decimal", Decimal(10, 0)),
        ("numeric", Decimal(38, 18)),
        ("text[]", Array(types.STRING)),
        ("array<array<int>>", Array(Array(types.INT))),
        ("numeric(4,1)[]", Array(Decimal(4, 1))),
    ],
)
def test_types_are_known_by_the_names_of_spark_and_postgresql(text: str, expected: Type) -> None:
    assert type_named(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bigit",
        "interval",
        "decimal(39,0)",
        "decimal(2,3)",
        "int(4)",
        "varchar(1,2)",
        "array<>",
        "[]",
        "array<" * 5000,
    ],
)
def test_other_texts_name_no_type(text: str) -> None:
    assert type_named(text) is None


@given(st.one_of(st.text(), st.lists(st.sampled_from([*NAMES, "<", ">", "[]", "(", ")", "3", ",", " "])).map("".join)))
def test_a_type_is_known_by_its_own_name(text: str) -> None:
    found = type_named(text)
    assert found is None or type_named(str(found)) == found
