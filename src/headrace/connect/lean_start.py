"""Lets processes of ours start sooner, and with less memory: a project starts several of them.

A process calls `begin_start` before it imports most of what it needs, `keep_pandas_out` before it makes Arrow arrays,
and `end_start` once it runs ([0185](../../../docs/decisions/0185-processes-start-lean.md)).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

NO_PLUGINS = {"PYDANTIC_DISABLE_PLUGINS": "1"}
"""Pydantic looks through everything that is installed for plug-ins, which we have none of, unless this is set."""

COLLECT_AFTER = 200_000
"""Objects that are made before Python looks for garbage among them, some 20 MB. Python's own limit of 700 makes it look
through everything that was imported again and again.
"""
USUAL = (700, 10, 10)
"""Python's own limits."""


def begin_start() -> None:
    for name, value in NO_PLUGINS.items():
        os.environ.setdefault(name, value)
    gc.set_threshold(COLLECT_AFTER)


def end_start() -> None:
    gc.set_threshold(*USUAL)


def keep_pandas_out() -> None:
    """Has Arrow look for pandas now, and find none.

    Arrow looks for it when it first makes an array of Python values, since these may be those of pandas; ours never
    are. Loading it takes longer than loading Arrow. Arrow looks once, so whoever imports pandas later gets it, and what
    needs pandas, such as `to_pandas`, finds it then.
    """
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array(())
    finally:
        sys.meta_path.remove(hidden)


class _Hidden:
    """Finds no pandas, whether it is installed or not."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is kept out of this process", name=name)
