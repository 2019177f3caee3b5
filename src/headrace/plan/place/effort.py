"""How hard to search where no cut decides."""

from __future__ import annotations

from typing import NamedTuple


class Effort(NamedTuple):
    """When to stop searching: nodes of HiGHS's tree, and of our own.

    Counted, not timed: equal inputs give equal answers.
    """

    milp_nodes: int = 20_000
    exact_nodes: int = 4_000
