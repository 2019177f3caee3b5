"""Makes bodies and names of a feed such that every store can hold them, whatever people posted or a table has.

A store that refused one event would stand still for everybody. PostgreSQL's JSON has no NUL, no half characters and no
numbers without end, and an index of it no entries of thousands of bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.run.rows.json_rows import json_value

LONGEST_NAME = 500
"""Bytes of a producer, a consumer or an id. Three of them fit into an entry of PostgreSQL's indexes."""
PREFIX = 400
"""Bytes that are left of a longer one, before the hash of all of it."""

NUL = "\x00"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_UNSURE = re.compile(r"\\u0000|\\u[dD][89a-fA-F]|NaN|Infinity|[eE][+-]?\d{3}|\d{300}")
"""What JSON may have that a store does not take; most bodies have none of it."""


def write_json(text: str | None) -> str:
    """A body as JSON that every store takes. What is no JSON is taken as text; no body is null."""
    if not text:
        return "null"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _write(text)
    return _write(value) if NUL in text or _UNSURE.search(text) else text


def clean_value(value: Any) -> Any:
    """A value of JSON in which all texts and numbers can be stored."""
    match value:
        case str():
            return value.replace(NUL, REPLACEMENT).encode(errors="replace").decode()
        case float():
            return json_value(value)
        case list():
            return [clean_value(one) for one in value]
        case dict():
            return {clean_value(name): clean_value(one) for name, one in value.items()}
        case _:
            return value


def shorten_names(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Names without NUL, of which none is too long: of those that are, the beginning and a hash of the whole.

    None is left out: an event that is among the newest of its producer would leave a gap.
    """
    if pc.any(pc.match_substring(names, NUL), min_count=0).as_py():
        names = pc.replace_substring(names, NUL, REPLACEMENT)
    if not pc.any(pc.greater(pc.binary_length(names), LONGEST_NAME), min_count=0).as_py():
        return names
    return pa.chunked_array([[None if name is None else _shorten(name) for name in names.to_pylist()]], pa.string())


def _shorten(name: str) -> str:
    written = name.encode()
    if len(written) <= LONGEST_NAME:
        return name
    return f"{written[:PREFIX].decode(errors='ignore')}~{hashlib.sha256(written).hexdigest()}"


def _write(value: Any) -> str:
    return json.dumps(clean_value(value), ensure_ascii=False)
