"""What a comparison of views with their queries has found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.model.types import Row


@dataclass(frozen=True, slots=True)
class ComparedView:
    """How a view compares with its query at time t: rows that it lacks, and rows that it has too many.

    `examples` are some of them, as rows of the view.
    """

    view: str
    contract: str
    site: str
    t: int
    rows: int
    missing: int
    extra: int
    examples_missing: tuple[Row, ...] = ()
    examples_extra: tuple[Row, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.missing and not self.extra

    def to_wire(self, with_examples: bool) -> dict[str, Any]:
        """What a site tells the coordinator. Examples are rows, which may have to stay where they are."""
        found = asdict(self) if with_examples else asdict(replace(self, examples_missing=(), examples_extra=()))
        plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
        return plain

    @staticmethod
    def from_wire(found: Mapping[str, Any]) -> ComparedView:
        """Values of examples that JSON has no type for are texts now."""
        missing, extra = (tuple(map(tuple, found[name])) for name in ("examples_missing", "examples_extra"))
        view, contract, site = (str(found[name]) for name in ("view", "contract", "site"))
        t, rows, lacks, has_too_many = (int(found[name]) for name in ("t", "rows", "missing", "extra"))
        return ComparedView(view, contract, site, t, rows, lacks, has_too_many, missing, extra)

    def document(self) -> dict[str, object]:
        counts = {"rows": self.rows, "missing": self.missing, "extra": self.extra}
        return {"view": self.view, "contract": self.contract, "equal": self.equal, "t": self.t, **counts}


@dataclass(frozen=True, slots=True)
class NotCompared:
    view: str
    contract: str
    reason: str

    def document(self) -> dict[str, object]:
        nothing = dict.fromkeys(("equal", "t", "rows", "missing", "extra"))
        return {"view": self.view, "contract": self.contract, **nothing, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class ComparedViews:
    """`writers_waited_s` is the longest time for which those who write to the databases had to wait."""

    views: tuple[ComparedView, ...]
    not_compared: tuple[NotCompared, ...] = ()
    writers_waited_s: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether no view differs."""
        return all(view.equal for view in self.views)

    def document(self) -> list[dict[str, object]]:
        """The comparison as `audit --json` has it, in the order of the contracts' names."""
        both: list[ComparedView | NotCompared] = [*self.views, *self.not_compared]
        return [one.document() for one in sorted(both, key=lambda one: one.contract)]
