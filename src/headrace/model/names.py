"""Names that people give to sources, views, sites and contracts, and those of two versions of one view.

A name has letters, marks and digits of any script, `_`, `-` and single spaces within. All other characters are ours:
ids of datasets are made of names and such characters (`d:orders,Größe@new york~3f2a9c`), and are read back. So a name
is one form of its text (NFC): files and databases may spell what looks the same in two ways.

Two versions of one view run side by side as `sales`, and `sales~3f2a9c` for the one that came later. The first keeps
its name, which its files bear. A view that is computed in full beside the maintained one is `sales~full`. People read
the name that they gave: `name_of_view`.
"""

from __future__ import annotations

import re
import unicodedata

MARK = "~"
"""No name that people may write has one."""
_VERSION = re.compile(rf"{MARK}(?:full|[0-9a-f]{{6}})")

LONGEST_NAME = 63
"""Bytes in UTF-8, PostgreSQL's limit: a contract may become a table."""


def find_wrong_name(name: str) -> tuple[str, str] | None:
    """Why people cannot use a name, and what to do; None if they can."""
    shown = "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in name[:40])
    if not unicodedata.is_normalized("NFC", name):
        why = f'"{shown}" is not a usable name: it has letters and accents as characters of their own'
        return why, f'write it in composed characters (NFC): "{unicodedata.normalize("NFC", name)[:40]}"'
    if not name or not all(_is_usable(one) for one in name) or _is_misplaced(name):
        hint = "use letters, digits, _, - and single spaces within, not beginning with -"
        return f'"{shown}" is not a usable name', hint
    size = len(name.encode())
    if size > LONGEST_NAME:
        return (
            f'name "{name[:20]}..." has {size} bytes',
            f"use at most {LONGEST_NAME}; letters beyond ASCII have 2 to 4",
        )
    return None


def _is_usable(character: str) -> bool:
    return character in "_- " or unicodedata.category(character)[0] in "LM" or unicodedata.category(character) == "Nd"


def _is_misplaced(name: str) -> bool:
    """A character where it would be lost, or would not be seen."""
    return name[0] in "- " or name[-1] == " " or "  " in name or unicodedata.category(name[0])[0] == "M"


def version_name(name: str, fingerprint: str) -> str:
    """The name of a version whose plain name is taken by an earlier one."""
    return f"{name}{MARK}{fingerprint[:6]}"


def full_name(name: str) -> str:
    """The name of a view computed in full whose plain name the maintained one has."""
    return f"{name}{MARK}full"


def name_of_view(name: str) -> str:
    """The name that people gave to a view or block, whichever version it is: `sales/1` of `sales~3f2a9c/1`."""
    return _VERSION.sub("", name)
