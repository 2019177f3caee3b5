"""The key with which cursors, places in streams and tokens of consumers are signed."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

KEY_FILE = "feeds.key"
KEY_BYTES = 32


def find_key(folder: Path) -> bytes:
    """What cursors are signed with; made once for a project, by the first of all threads and processes that need it."""
    file = folder / KEY_FILE
    if not file.exists():
        made = file.with_suffix(f".{secrets.token_hex(8)}")
        made.touch(0o600)
        made.write_bytes(secrets.token_bytes(KEY_BYTES))
        # A link, since renaming would replace the key that somebody else has just made and signed with.
        with suppress(FileExistsError):
            file.hardlink_to(made)
        made.unlink()
    return file.read_bytes()
