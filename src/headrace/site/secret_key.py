"""Keys that a project signs with: random bytes in a file, made once."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from headrace.connect.files import open_private
from headrace.model.errors import UnreadableState

KEY_BYTES = 32


def find_secret(file: Path, mending: str) -> bytes:
    """The key in a file; made by the first of all threads and processes that need it. `mending` is what to do if the
    file is damaged.
    """
    if not file.exists():
        made = file.with_suffix(f".{secrets.token_hex(8)}")
        with open_private(made) as opened:
            opened.write(secrets.token_bytes(KEY_BYTES))
            opened.flush()
            os.fsync(opened.fileno())  # an empty key after a loss of power would let anybody sign
        # A link, since renaming would replace the key that somebody else has just made and signed with.
        with suppress(FileExistsError):
            file.hardlink_to(made)
        made.unlink()
    key = file.read_bytes()
    if len(key) != KEY_BYTES:
        raise UnreadableState(f'"{file}" has {len(key)} bytes, not {KEY_BYTES}', mending)
    return key
