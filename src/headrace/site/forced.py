"""Stores the promises of forced contracts, and the freshness they are planned for: `.headrace/forced.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from headrace.model.plan import Plan
from headrace.site.folder import FORCED_FILE, Folder


@dataclass(frozen=True, slots=True)
class ForcedTerms:
    """Freshness in seconds: as the project declares it, and as it is planned, which may be more."""

    declared_s: float
    kept_s: float


def write_forced(folder: Folder, plan: Plan, promised: Mapping[str, float]) -> None:
    kept = plan.catalogue.contracts
    terms = {name: ForcedTerms(declared_s, kept[name].freshness_s) for name, declared_s in promised.items()}
    folder.write_json(FORCED_FILE, {name: asdict(one) for name, one in terms.items()})


def read_forced(folder: Folder) -> dict[str, ForcedTerms]:
    """Reads forced terms by contract. Raises UnreadableState: going on without them would break promises."""
    found = folder.read_json(FORCED_FILE)
    try:
        return {name: _read_terms(terms) for name, terms in ({} if found is None else found).items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = "it does not say what forced contracts were promised"
        raise folder.unreadable(FORCED_FILE, why) from error


def _read_terms(terms: Mapping[str, float]) -> ForcedTerms:
    return ForcedTerms(float(terms["declared_s"]), float(terms["kept_s"]))


def read_forced_promises(folder: Folder) -> dict[str, float]:
    """What contracts that were forced are promised, in seconds."""
    return {name: terms.declared_s for name, terms in read_forced(folder).items()}
