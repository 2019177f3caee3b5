"""Contracts that were refused and are kept all the same: how fresh they are planned to be, in seconds, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.model.catalogue import Catalogue
from headrace.service.folder import Folder
from headrace.service.host import FORCED_FILE


def still_forced(folder: Folder, declared: Catalogue) -> dict[str, float]:
    """Those that run, while they ask for the same as when they were forced."""
    before = folder.read_json(FORCED_FILE) or {}
    return {
        name: terms["kept_s"]
        for name, terms in before.items()
        if name in declared.contracts and declared.contracts[name].freshness_s == terms["declared_s"]
    }


def with_forced(declared: Catalogue, planned_s: Mapping[str, float]) -> Catalogue:
    forced = {
        name: replace(declared.contracts[name], freshness_s=freshness_s, forced=True)
        for name, freshness_s in planned_s.items()
    }
    return replace(declared, contracts={**declared.contracts, **forced})
