"""The key with which cursors, places in streams and tokens of consumers are signed."""

from __future__ import annotations

from pathlib import Path

from headrace.site.secret_key import find_secret

KEY_FILE = "feeds.key"


def find_key(folder: Path) -> bytes:
    """What cursors are signed with; made once for a project, by the first of all threads and processes that need it."""
    mending = "remove it: a new key is made, and cursors and consumers' tokens of the old one end"
    return find_secret(folder / KEY_FILE, mending)
