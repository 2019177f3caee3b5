"""Names of two versions of one view that run side by side: `sales`, and `sales~3f2a9c` for the one that came later.

The first keeps its name, which its files bear. People read the name that they gave: `name_of_view`.
"""

from __future__ import annotations

import re

MARK = "~"
"""No name that people may write has one."""
_VERSION = re.compile(rf"{MARK}[0-9a-f]{{6}}")


def version_name(name: str, fingerprint: str) -> str:
    """The name of a version whose plain name is taken by an earlier one."""
    return f"{name}{MARK}{fingerprint[:6]}"


def name_of_view(name: str) -> str:
    """The name that people gave to a view or block, whichever version it is: `sales/1` of `sales~3f2a9c/1`."""
    return _VERSION.sub("", name)
