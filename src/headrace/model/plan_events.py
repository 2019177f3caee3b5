"""Events of plans: contracts that come, go, move or are refused, and views that are loaded or compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from headrace.model.amounts import format_money, format_price
from headrace.model.happening import Happening


@dataclass(frozen=True, slots=True)
class PlanApplied(Happening):
    """`contracts` are those that the plan before did not have, `withdrawn` those that it alone had."""

    name: ClassVar[str] = "plan applied"
    kept: int
    contracts: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    took_s: float = 0.0

    @property
    def text(self) -> str:
        named = (("new", self.contracts), ("withdrawn", self.withdrawn))
        changes = "".join(f"; {word}: {', '.join(names)}" for word, names in named if names)
        return f"now running a plan for {self.kept} {'contract' if self.kept == 1 else 'contracts'}{changes}"

    @property
    def about(self) -> Mapping[str, tuple[str, ...]]:
        changed = tuple(sorted({*self.contracts, *self.withdrawn}))
        return {"contracts": changed} if changed else {}


@dataclass(frozen=True, slots=True)
class ApplyFailed(Happening):
    name: ClassVar[str] = "apply failed"
    is_warning: ClassVar[bool] = True

    @property
    def text(self) -> str:
        return "a plan could not be applied; what ran before continues"


@dataclass(frozen=True, slots=True)
class ContractRefused(Happening):
    """`goes_on` says what runs instead; `smallest_staleness_s` is the least freshness that would be admitted."""

    name: ClassVar[str] = "refused"
    is_warning: ClassVar[bool] = True
    contract: str
    goes_on: str | None = None
    smallest_staleness_s: float | None = None

    @property
    def text(self) -> str:
        return f'contract "{self.contract}" is refused' + ("" if self.goes_on is None else f"; it {self.goes_on}")


@dataclass(frozen=True, slots=True)
class ContractAdmitted(Happening):
    """A contract is admitted that was refused before, or whose last version was."""

    name: ClassVar[str] = "admitted"
    contract: str

    @property
    def text(self) -> str:
        return f'contract "{self.contract}" is admitted; it was refused before'


@dataclass(frozen=True, slots=True)
class ContractsMoved(Happening):
    """The service went over to a better plan by itself. `saving_h` is $/h, `migration` $; `made` and `dropped` are
    datasets in words.
    """

    name: ClassVar[str] = "moved"
    contracts: tuple[str, ...]
    saving_h: float
    migration: float
    restores: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        cheaper = self.saving_h > 0.0
        change = format_price(abs(self.saving_h), "h")
        plan = f"a cheaper plan: saves {change}" if cheaper else f"another plan: costs {change} more"
        lists = (("can be kept again", self.restores), ("made", self.made), ("dropped", self.dropped))
        rest = "".join(f"; {word}: {', '.join(names)}" for word, names in lists if names)
        return f"moved {', '.join(self.contracts)} to {plan}, moving cost {format_money(self.migration)}{rest}"


@dataclass(frozen=True, slots=True)
class MoveFailed(Happening):
    name: ClassVar[str] = "move failed"
    is_warning: ClassVar[bool] = True
    contracts: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"{', '.join(self.contracts)} could not be moved; the running plan stays in place"


@dataclass(frozen=True, slots=True)
class ContractLeftOut(Happening):
    """Its view has no rows, or not all: it is loaded when that becomes possible."""

    name: ClassVar[str] = "left out"
    is_warning: ClassVar[bool] = True
    contract: str

    @property
    def text(self) -> str:
        return f'contract "{self.contract}" cannot be loaded now'


@dataclass(frozen=True, slots=True)
class ContractLoaded(Happening):
    """Its view was left out before."""

    name: ClassVar[str] = "loaded"
    contract: str

    @property
    def text(self) -> str:
        return f'contract "{self.contract}" is loaded'


@dataclass(frozen=True, slots=True)
class SourcesReread(Happening):
    name: ClassVar[str] = "read again"
    is_warning: ClassVar[bool] = True
    sources: tuple[str, ...]

    @property
    def text(self) -> str:
        them = "it" if len(self.sources) == 1 else "them"
        return f"reading {', '.join(self.sources)} again, and recomputing what depends on {them}"


@dataclass(frozen=True, slots=True)
class ViewsCompared(Happening):
    """Views were compared by `audit --recompute`: `contracts` are those whose views differ from their queries."""

    name: ClassVar[str] = "compared"
    equal: int
    different: int
    not_compared: int = 0
    contracts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        differ = f", {self.different} differ: {', '.join(self.contracts)}" if self.different else ""
        left = f", {self.not_compared} could not be compared" if self.not_compared else ""
        return f"views were compared with their queries: {self.equal} equal{differ}{left}"
