"""Names the clocks of sources: sources of one database have one, and their changes come in one order.

Names are in notes, commit marks and file names, and contain no secrets.
"""

from __future__ import annotations

import hashlib
import re

from headrace.model.catalogue import Source


def clock_of(source: Source) -> str:
    """The clock of a source whose origin is known. Sources of one kind with one address have the same.

    A source without an address has a clock of its own, `KIND:SOURCE`.
    """
    origin = source.origin
    assert origin is not None
    if origin.address is None:
        return f"{OWN_CLOCKS.get(origin.kind, origin.kind)}:{source.name}"
    name = name_database(origin.address)
    return name if origin.kind == "postgres" else f"{origin.kind}_{name}"


OWN_CLOCKS = {"files": "folder"}
"""Ledgers that exist have these under another name than that of their kind."""


def name_database(address: str) -> str:
    """A database is named after the variable that holds the address; an address in clear is only hashed."""
    variable = re.fullmatch(r"\$\{(\w+)\}", address.strip())
    return variable[1].lower() if variable else "db_" + hashlib.sha256(address.encode()).hexdigest()[:8]
