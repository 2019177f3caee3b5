"""Arrays as PostgreSQL writes them: `{1,2,NULL}`, `{"a b","say \\"hi\\""}`, `{{1,2},{3,4}}`, `[0:1]={7,8}`."""

from __future__ import annotations

import re

Nested = list["Nested | bytes | None"]

_TOKEN = re.compile(rb'[{},]|"(?:[^"\\]|\\.)*"|(?:[^{},"\\]|\\.)+', re.DOTALL)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


def parse_array(text: bytes) -> Nested:
    """Elements as the bytes of their texts; inner arrays as lists. Where the numbering starts is left out."""
    if text.startswith(b"["):
        text = text[text.index(b"=") + 1 :]
    outer: Nested = []
    open_: list[Nested] = [outer]
    for token in _TOKEN.findall(text):
        if token == b"{":
            inner: Nested = []
            open_[-1].append(inner)
            open_.append(inner)
        elif token == b"}":
            open_.pop()
        elif token != b",":
            open_[-1].append(_element(token))
    assert len(open_) == 1 and len(outer) == 1 and isinstance(outer[0], list), f"not an array: {text[:100]!r}"
    return outer[0]


def _element(token: bytes) -> bytes | None:
    if token.startswith(b'"'):
        return _ESCAPED.sub(rb"\1", token[1:-1])
    return None if token.upper() == b"NULL" else _ESCAPED.sub(rb"\1", token)
