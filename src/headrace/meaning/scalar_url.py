"""Text as it stands in addresses of the web."""

from __future__ import annotations

import codecs
import re
import string
from collections.abc import Callable, Mapping
from urllib.parse import quote_plus

from headrace.model.errors import EvaluationError
from headrace.model.types import Value

_ESCAPES = re.compile("(?:%[^%]{2})+", re.DOTALL)
_WIDE_LETTERS, _WIDER = range(0xFF21, 0xFF47), 0xFEE0
_REPLACED = "headrace-java-replace"
_SURROGATE, _CONTINUATION = 0xED, range(0x80, 0xC0)


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """One sign for each sequence that is not UTF-8: Java takes a surrogate for one sequence, Python for several."""
    assert isinstance(error, UnicodeDecodeError), "only decoding replaces"
    data, start, end = error.object, error.start, error.end
    if data[start] == _SURROGATE and start + 1 < len(data) and data[start + 1] in range(0xA0, 0xC0):
        end = start + 2
        end += end < len(data) and data[end] in _CONTINUATION
    return "\ufffd", end


codecs.register_error(_REPLACED, _replace_as_java)


def encode_url(text: str) -> str:
    return quote_plus(text, safe="*").replace("~", "%7E")


def decode_url(text: str) -> str:
    """What `url_encode` made, or a browser; bytes that are not UTF-8 become U+FFFD."""
    made, place = [], 0
    for escapes in _ESCAPES.finditer(text):
        made.append(_plain(text, text[place : escapes.start()]))
        codes = escapes.group().split("%")[1:]
        made.append(bytes(_read_code(text, code) for code in codes).decode("utf-8", _REPLACED))
        place = escapes.end()
    made.append(_plain(text, text[place:]))
    return "".join(made)


def _plain(text: str, part: str) -> str:
    if "%" in part:
        raise _not_encoded(text)
    return part.replace("+", " ")


def _read_code(text: str, code: str) -> int:
    """Java reads two digits, of any script, or a sign and a digit."""
    high, low = _read_digit(code[0]), _read_digit(code[1])
    if low is not None and (high is not None or code[0] == "+" or (code[0] == "-" and low == 0)):
        return 16 * (high or 0) + low
    raise _not_encoded(text)


def _read_digit(sign: str) -> int | None:
    sign = chr(ord(sign) - _WIDER) if ord(sign) in _WIDE_LETTERS else sign
    if sign in string.hexdigits:
        return int(sign, 16)
    return int(sign) if sign.isdecimal() and sign <= "\uffff" else None


def _not_encoded(text: str) -> EvaluationError:
    return EvaluationError(f"url_decode: '{text[:100]}' has a % without two hexadecimal digits after it")


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "url_encode": encode_url,
    "url_decode": decode_url,
}
"""Functions of values that are not NULL."""
