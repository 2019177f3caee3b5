"""Functions of text and of bytes beyond the few that most queries use: what they take and what they give."""

from __future__ import annotations

from headrace.meaning.function import Function, Parameter
from headrace.model.types import BIGINT, BINARY, BOOLEAN, INT, STRING

_TEXT, _NUMBER, _BYTES = Parameter.TEXT, Parameter.INT, Parameter.BYTES

TEXT_FUNCTIONS: tuple[Function, ...] = (
    *(Function(name, (_TEXT, _TEXT), STRING, total=True) for name in ("trim_both", "trim_leading", "trim_trailing")),
    Function("ascii", (_TEXT,), INT, total=True),
    Function("char", (Parameter.BIGINT,), STRING, total=True),
    Function("space", (_NUMBER,), STRING, total=True),
    Function("soundex", (_TEXT,), STRING, total=True),
    Function("levenshtein", (_TEXT, _TEXT, _NUMBER), INT, optional=1, total=True, constant=(2,)),
    Function("overlay", (_TEXT, _TEXT, _NUMBER, _NUMBER), STRING, optional=1, total=True),
    Function("substring_index", (_TEXT, _TEXT, _NUMBER), STRING, total=True),
    Function("find_in_set", (_TEXT, _TEXT), INT, total=True),
    Function("elt", (_NUMBER, _TEXT), STRING, repeated=True, sees_null=True),
    Function("luhn_check", (_TEXT,), BOOLEAN, total=True),
    Function("url_encode", (_TEXT,), STRING, total=True),
    Function("parse_url", (_TEXT, _TEXT, _TEXT), STRING, optional=1, constant=(1, 2)),
    Function("try_parse_url", (_TEXT, _TEXT, _TEXT), STRING, optional=1, constant=(1, 2), total=True),
    Function("url_decode", (_TEXT,), STRING),
    Function("try_url_decode", (_TEXT,), STRING, total=True),
    Function(
        "mask",
        (_TEXT, _TEXT, _TEXT, _TEXT, _TEXT),
        STRING,
        optional=4,
        total=True,
        sees_null=True,
        constant=(1, 2, 3, 4),
    ),
    Function("format_number", (Parameter.NUMBER, _NUMBER), STRING, total=True, constant=(1,)),
    Function("format_string", (_TEXT, Parameter.ANY), STRING, repeated=True, constant=(0,), sees_null=True),
    Function("regexp_count", (_TEXT, _TEXT), INT, constant=(1,)),
    Function("regexp_instr", (_TEXT, _TEXT), INT, constant=(1,)),
    Function("regexp_substr", (_TEXT, _TEXT), STRING, constant=(1,)),
)

BYTE_FUNCTIONS: tuple[Function, ...] = (
    Function("md5", (_BYTES,), STRING, total=True),
    Function("sha1", (_BYTES,), STRING, total=True),
    Function("sha2", (_BYTES, _NUMBER), STRING, total=True),
    Function("crc32", (_BYTES,), BIGINT, total=True),
    Function("hash", (Parameter.ANY,), INT, repeated=True, total=True, sees_null=True),
    Function("xxhash64", (Parameter.ANY,), BIGINT, repeated=True, total=True, sees_null=True),
    Function("base64", (_BYTES,), STRING, total=True),
    Function("unbase64", (_TEXT,), BINARY),
    Function("hex", (Parameter.ANY,), STRING, total=True),
    Function("unhex", (_TEXT,), BINARY, total=True),
    Function("encode", (_TEXT, _TEXT), BINARY, constant=(1,)),
    Function("decode", (_BYTES, _TEXT), STRING, constant=(1,)),
    Function("bit_length", (_BYTES,), INT, total=True),
    Function("octet_length", (_BYTES,), INT, total=True),
)
