"""How hard to search where no cut decides."""

from __future__ import annotations

from typing import NamedTuple


class Effort(NamedTuple):
    """When to stop searching: nodes of HiGHS's tree, of our own, and for our own also nodes times variables.

    Counted, not timed: equal inputs give equal answers.
    """

    milp_nodes: int = 20_000
    exact_nodes: int = 4_000
    exact_work: int = 1_000_000
