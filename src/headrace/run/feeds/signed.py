"""Texts that we give out and take back: people can neither read nor change them, and each has one purpose."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json

SIGNATURE_BYTES = 16


def write_signed(said: bytes, about: tuple[str, ...], key: bytes) -> str:
    """`about` is what the text is for: whoever reads it for something else finds that it is not signed."""
    return base64.urlsafe_b64encode(_sign(said, about, key) + said).rstrip(b"=").decode("ascii")


def read_signed(text: str, about: tuple[str, ...], key: bytes) -> bytes | None:
    """What was signed; None if it was not, or for something else."""
    try:
        given = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if base64.urlsafe_b64encode(given).rstrip(b"=").decode("ascii") != text:
        return None  # bits of the last character that mean nothing: what was given out has one spelling
    signature, said = given[:SIGNATURE_BYTES], given[SIGNATURE_BYTES:]
    return said if hmac.compare_digest(signature, _sign(said, about, key)) else None


def _sign(said: bytes, about: tuple[str, ...], key: bytes) -> bytes:
    return hmac.digest(key, json.dumps(about).encode() + said, hashlib.sha256)[:SIGNATURE_BYTES]
