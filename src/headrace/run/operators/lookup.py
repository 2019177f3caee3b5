"""How operators find rows by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]


class Lookup(Protocol):
    """Rows with their history, found by the values of a key. An empty key finds all rows for every row sought."""

    def meet(self, probe: pa.Table, probe_key: Sequence[str], null_safe: bool) -> tuple[Integers, pa.Table]:
        """Finds pairs of a row of `probe` and a row kept: the position of the first, and the second."""
