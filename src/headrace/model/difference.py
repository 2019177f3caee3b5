"""What changes between two plans."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """Vertices by id. A vertex that moves goes from the first to the second of its pair; one that is `rewired` stays
    and gets another producer. `reread` are sources that changed: all that is made from them starts anew. Costs are $/s
    of all resources.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    moved: tuple[tuple[str, str], ...]
    rewired: tuple[str, ...]
    reused: tuple[str, ...]
    contracts_added: tuple[str, ...]
    contracts_removed: tuple[str, ...]
    contracts_changed: tuple[str, ...]
    cost_before: float
    cost_after: float
    reread: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        changes = (self.added, self.removed, self.moved, self.rewired, self.reread)
        return not any((*changes, self.contracts_added, self.contracts_removed, self.contracts_changed))
