"""What changes between two plans."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ValueChange:
    """What a project declares otherwise (`link us > eu`, its `bandwidth`), as people read it."""

    what: str
    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Vertices by id. A vertex that moves goes from the first to the second of its pair; one that is `rewired` stays
    and gets another producer. `reread` are sources that changed, `rebuilt` the vertices that both plans have and that
    are made from them; `reused` are those that stay as they are. Costs are $/s of all resources. `values` are declared
    otherwise; `refused` are contracts that go on although what is asked for (something else than before) is refused.
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
    rebuilt: tuple[str, ...] = ()
    values: tuple[ValueChange, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        changes = (self.added, self.removed, self.moved, self.rewired, self.reread, self.values, self.refused)
        return not any((*changes, self.contracts_added, self.contracts_removed, self.contracts_changed))
