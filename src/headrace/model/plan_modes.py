"""Ways to plan that people can choose: how to search, what to share, in which order, and across a wide area."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Method(StrEnum):
    """How one contract's plan is searched: the cheapest that keeps the promise, or as in SMILE (least cost, least
    time, one then the other).
    """

    CHEAPEST = "cheapest"
    DPD = "dpd"
    DPT = "dpt"
    SMILE = "smile"


class Sharing(StrEnum):
    """What plans have in common: nothing, equal vertices, those and what hill climbing finds, or whatever lives
    already at its marginal cost.
    """

    NONE = "none"
    MERGE = "merge"
    PLUMB = "plumb"
    MARGINAL = "marginal"


class ContractOrder(StrEnum):
    """Which contracts are planned first: small views, or as written in the file."""

    SMALL_FIRST = "small-first"
    DECLARED = "declared"


class WideArea(StrEnum):
    """Scheduling operator by operator across a wide area, as in Sana: what may be shared, and whether sharing and
    placing look at the links.
    """

    DEFAULT = "default"
    NET = "net"
    MQO = "mqo"
    SANA = "sana"
    NO_SHARE = "no-share"
    STRICT_SHARE = "strict-share"
    MAX_SHARE = "max-share"

    @property
    def shares(self) -> bool:
        """Whether queries share anything; otherwise the vertices of contracts are kept apart."""
        return self not in (WideArea.DEFAULT, WideArea.NET, WideArea.NO_SHARE)


class Prefer(StrEnum):
    """What decides whether a running operator is shared: bytes saved, or that it is hardly later than another one."""

    BYTES = "bytes"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class PlanWishes:
    """What somebody says about how to plan; None where they say nothing."""

    method: Method | None = None
    sharing: Sharing | None = None
    wide_area: WideArea | None = None

    def over(self, others: PlanWishes) -> PlanWishes:
        """These wishes, and those of others where these say nothing."""
        return PlanWishes(
            self.method or others.method, self.sharing or others.sharing, self.wide_area or others.wide_area
        )
