"""Lets processes of ours start sooner, and with less memory: a project starts several of them.

See [0185](../../../docs/decisions/0185-processes-start-lean.md).
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

USUAL = (700, 10, 10)
"""Python's own limits: how many new objects there are before it looks for garbage."""


def end_start() -> None:
    """Has Python look for garbage as usual again: commands raise its limits while they import what they need."""
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
    hidden = _Hidden(threading.get_ident())
    sys.meta_path.insert(0, hidden)
    try:
        pa.array(())
    finally:
        sys.meta_path.remove(hidden)


@dataclass(frozen=True, slots=True)
class _Hidden:
    """Finds no pandas for one thread, whether it is installed or not. Others may start Spark, which uses it."""

    thread: int

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        if name == "pandas" and threading.get_ident() == self.thread:
            raise ModuleNotFoundError("pandas is kept out of this process", name=name)
