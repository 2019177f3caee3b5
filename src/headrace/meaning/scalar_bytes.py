"""Digests and encodings. Text counts as its UTF-8 bytes wherever bytes are asked for."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import string
import zlib
from collections.abc import Callable, Mapping

from headrace.model.errors import EvaluationError
from headrace.model.types import Value

CHARACTER_SETS: Mapping[str, str] = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
}
_BASE64 = frozenset((string.ascii_letters + string.digits + "+/=").encode())
_LINE = 76
_DIGESTS: Mapping[int, Callable[[bytes], hashlib._Hash]] = {
    0: hashlib.sha256,
    224: hashlib.sha224,
    256: hashlib.sha256,
    384: hashlib.sha384,
    512: hashlib.sha512,
}


def as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def digest_sha2(value: str | bytes, bits: int) -> str | None:
    """NULL for numbers of bits that no function of the family has."""
    digest = _DIGESTS.get(bits)
    return None if digest is None else digest(as_bytes(value)).hexdigest()


def encode_base64(value: str | bytes) -> str:
    """Writes lines of 76 characters, as MIME has them."""
    whole = base64.b64encode(as_bytes(value)).decode()
    return "\r\n".join(whole[start : start + _LINE] for start in range(0, len(whole), _LINE))


def decode_base64(text: str) -> bytes:
    """Characters outside the alphabet are skipped; padding at the end may be left out, but not be wrong."""
    kept = bytes(byte for byte in text.encode() if byte in _BASE64)
    data, padding, rest = kept.partition(b"=")
    wanted = {0: None, 1: None, 2: b"=", 3: b""}[len(data) % 4]
    unfit = wanted is None or not rest.startswith(wanted) or bool(rest.strip(b"="))
    if unfit if padding else len(data) % 4 == 1:
        raise EvaluationError(f"'{text[:100]}' is not base64")
    return base64.b64decode(data + b"=" * (-len(data) % 4))


def encode_hex(value: int | str | bytes) -> str:
    """A number has the digits of its 64 bits without leading zeros."""
    return f"{value & (2**64 - 1):X}" if isinstance(value, int) else as_bytes(value).hex().upper()


def decode_hex(text: str) -> bytes | None:
    """NULL for what is not hexadecimal; an odd number of digits begins with a zero."""
    if re.fullmatch("[0-9A-Fa-f]*", text) is None:
        return None
    return binascii.unhexlify(text if len(text) % 2 == 0 else f"0{text}")


def encode_text(text: str, charset: str) -> bytes:
    try:
        return text.encode(_find_codec(charset))
    except UnicodeError as error:
        raise EvaluationError(f"encode: a character is not in {charset}") from error


def decode_text(data: str | bytes, charset: str) -> str:
    try:
        return as_bytes(data).decode(_find_codec(charset))
    except UnicodeError as error:
        raise EvaluationError(f"decode: the bytes are not text in {charset}") from error


def _find_codec(charset: str) -> str:
    codec = CHARACTER_SETS.get(charset.upper())
    if codec is None:
        raise EvaluationError(f'"{charset}" is not a character set that we know')
    return codec


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "md5": lambda value: hashlib.md5(as_bytes(value), usedforsecurity=False).hexdigest(),
    "sha1": lambda value: hashlib.sha1(as_bytes(value), usedforsecurity=False).hexdigest(),
    "sha2": digest_sha2,
    "crc32": lambda value: zlib.crc32(as_bytes(value)),
    "base64": encode_base64,
    "unbase64": decode_base64,
    "hex": encode_hex,
    "unhex": decode_hex,
    "encode": encode_text,
    "decode": decode_text,
    "bit_length": lambda value: 8 * len(as_bytes(value)),
    "octet_length": lambda value: len(as_bytes(value)),
}
"""Functions of values that are not NULL."""
