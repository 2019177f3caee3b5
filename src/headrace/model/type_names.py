"""Types by the names people know them by: Spark's (`bigint`, `array<string>`) and PostgreSQL's (`int8`, `text[]`).

Where the two differ Spark's meaning wins: `float` has 4 bytes. `numeric` without digits is `decimal(38,18)`, what Spark
makes of PostgreSQL's unlimited numbers; `decimal` alone is Spark's `decimal(10,0)`.
"""

from __future__ import annotations

import re

from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Array,
    Decimal,
    Type,
)

_NAMES: dict[str, Type] = {
    **dict.fromkeys(("boolean", "bool"), BOOLEAN),
    **dict.fromkeys(("tinyint", "byte"), TINYINT),
    **dict.fromkeys(("smallint", "short", "int2", "smallserial"), SMALLINT),
    **dict.fromkeys(("int", "integer", "int4", "serial"), INT),
    **dict.fromkeys(("bigint", "long", "int8", "bigserial"), BIGINT),
    **dict.fromkeys(("float", "real", "float4"), FLOAT),
    **dict.fromkeys(("double", "double precision", "float8"), DOUBLE),
    **dict.fromkeys(("string", "text", "varchar", "character varying", "char", "character", "bpchar"), STRING),
    **dict.fromkeys(("uuid", "json", "jsonb"), STRING),
    **dict.fromkeys(("binary", "bytea"), BINARY),
    "date": DATE,
    **dict.fromkeys(("timestamp", "timestamptz", "timestamp_ltz", "timestamp_ntz"), TIMESTAMP),
    **dict.fromkeys(("timestamp with time zone", "timestamp without time zone"), TIMESTAMP),
    "decimal": Decimal(10, 0),
    "dec": Decimal(10, 0),
    "numeric": Decimal(38, 18),
}
_WITH_LENGTH = ("varchar", "character varying", "char", "character", "bpchar")
_WITH_FRACTION = ("timestamp", "timestamptz", "timestamp with time zone", "timestamp without time zone")
_DECIMALS = ("decimal", "dec", "numeric")

_PARAMETERS = re.compile(r"([a-z_0-9 ]+?) ?\( ?(\d{1,9}) ?(?:, ?(\d{1,9}) ?)?\)( with time zone| without time zone)?")

NAMES = tuple(sorted({*_NAMES, "array"}))
"""What a hint may suggest for a misspelt type."""

DEEPEST_ARRAY = 8


def type_named(text: str, depth: int = 0) -> Type | None:
    """The type that a text names, or None."""
    name = " ".join(text.casefold().split())
    element = _element_of(name)
    if element is not None:
        inner = type_named(element, depth + 1) if depth < DEEPEST_ARRAY else None
        return None if inner is None else Array(inner)
    if name in _NAMES:
        return _NAMES[name]
    match = _PARAMETERS.fullmatch(name)
    return _with_parameters(match[1] + (match[4] or ""), match[2], match[3]) if match else None


def _element_of(name: str) -> str | None:
    if name.startswith("array<") and name.endswith(">"):
        return name[len("array<") : -1]
    return name[: -len("[]")] if name.endswith("[]") else None


def _with_parameters(name: str, first: str, second: str | None) -> Type | None:
    if name in _DECIMALS:
        precision, scale = int(first), int(second or 0)
        return Decimal(precision, scale) if 1 <= precision <= 38 and scale <= precision else None
    known = name in _WITH_LENGTH or name in _WITH_FRACTION
    return _NAMES[name] if known and second is None else None
