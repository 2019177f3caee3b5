"""Events of pushes, captures and what is stored: most are routine, since there are many of them.

Those of pushes and captures are rows of the commits that they tell of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from headrace.model.amounts import format_bytes, format_rows
from headrace.model.happening import Happening, seconds_text


class Use(NamedTuple):
    """What one contract is charged, of what it shares with others: core seconds, bytes sent between sites, $, and byte
    seconds on disk. A tuple, because that is short: there is one for each contract of each commit.
    """

    core_s: float = 0.0
    sent_bytes: float = 0.0
    cost: float = 0.0
    kept_byte_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DatasetsPushed(Happening):
    """One commit of pushes. `contracts` are those whose views moved on; `used` is what contracts are charged."""

    name: ClassVar[str] = "pushed"
    is_routine: ClassVar[bool] = True
    pushes: int
    rows: int = 0
    written_bytes: int = 0
    took_s: float = 0.0
    contracts: tuple[str, ...] = ()
    used: Mapping[str, Use] = field(default_factory=dict)

    @property
    def text(self) -> str:
        pushed = f"pushed {self.pushes} {'dataset' if self.pushes == 1 else 'datasets'}"
        views = f", with {', '.join(self.contracts)}" if self.contracts else ""
        return f"{pushed}{views}: {format_rows(self.rows)} in {seconds_text(self.took_s, 3)}"

    @property
    def numbers(self) -> Mapping[str, float]:
        return {
            "pushes": self.pushes,
            "rows": self.rows,
            "written_bytes": self.written_bytes,
            "took_s": self.took_s,
            "core_s": sum(one.core_s for one in self.used.values()),
            "sent_bytes": sum(one.sent_bytes for one in self.used.values()),
            "cost": sum(one.cost for one in self.used.values()),
        }


@dataclass(frozen=True, slots=True)
class ChangesCaptured(Happening):
    """One commit of a capture that brought rows; `rows_of` by source."""

    name: ClassVar[str] = "captured"
    is_routine: ClassVar[bool] = True
    database: str
    rows_of: Mapping[str, int]

    @property
    def text(self) -> str:
        return "captured " + ", ".join(f"{format_rows(rows)} of {name}" for name, rows in sorted(self.rows_of.items()))

    @property
    def about(self) -> Mapping[str, tuple[str, ...]]:
        return {"sources": tuple(sorted(self.rows_of)), "databases": (self.database,)}

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"rows": sum(self.rows_of.values())}


@dataclass(frozen=True, slots=True)
class CaptureEnded(Happening):
    """A capture ended by itself; its reason says how. The service starts it again after `again_s`."""

    name: ClassVar[str] = "capture ended"
    is_warning: ClassVar[bool] = True
    database: str
    again_s: float

    @property
    def text(self) -> str:
        return f"capture of {self.database} ended; the service starts it again in {seconds_text(self.again_s)}"


@dataclass(frozen=True, slots=True)
class FeedServerEnded(Happening):
    """A feed server ended by itself; its reason says how. The service starts another after `again_s`."""

    name: ClassVar[str] = "feed server ended"
    is_warning: ClassVar[bool] = True
    pid: int
    again_s: float

    @property
    def text(self) -> str:
        return f"feed server {self.pid} ended; the service starts another in {seconds_text(self.again_s)}"


@dataclass(frozen=True, slots=True)
class DeviceProcessEnded(Happening):
    """The broker or the router of devices ended by itself; its reason says how. Another is started after `again_s`."""

    name: ClassVar[str] = "device process ended"
    is_warning: ClassVar[bool] = True
    process: str
    pid: int
    again_s: float

    @property
    def text(self) -> str:
        which = f" (process {self.pid})" if self.pid else ""
        again = f"the service starts it again in {seconds_text(self.again_s)}"
        return f"the {self.process} of devices ended{which}; {again}"


@dataclass(frozen=True, slots=True)
class LogsKeptUp(Happening):
    """Upkeep that ran together: files were merged, or new bases written. `used` is what contracts are charged."""

    name: ClassVar[str] = "kept up"
    is_routine: ClassVar[bool] = True
    pieces: int
    read_bytes: int = 0
    took_s: float = 0.0
    used: Mapping[str, Use] = field(default_factory=dict)

    @property
    def text(self) -> str:
        work = f"{self.pieces} {'piece' if self.pieces == 1 else 'pieces'} of upkeep"
        return f"did {work}: read {format_bytes(self.read_bytes)} in {seconds_text(self.took_s, 3)}"

    @property
    def about(self) -> Mapping[str, tuple[str, ...]]:
        return {"contracts": tuple(sorted(self.used))} if self.used else {}

    @property
    def numbers(self) -> Mapping[str, float]:
        cost = sum(one.cost for one in self.used.values())
        return {"pieces": self.pieces, "read_bytes": self.read_bytes, "took_s": self.took_s, "cost": cost}


@dataclass(frozen=True, slots=True)
class DatasetsStored(Happening):
    """What is on disk is charged for a while; `used` is what contracts are charged."""

    name: ClassVar[str] = "stored"
    is_routine: ClassVar[bool] = True
    bytes: int
    kept_s: float
    used: Mapping[str, Use] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return f"kept {format_bytes(self.bytes)} on disk for {seconds_text(self.kept_s)}"

    @property
    def about(self) -> Mapping[str, tuple[str, ...]]:
        return {"contracts": tuple(sorted(self.used))} if self.used else {}

    @property
    def numbers(self) -> Mapping[str, float]:
        cost = sum(one.cost for one in self.used.values())
        return {"stored_bytes": self.bytes, "kept_s": self.kept_s, "cost": cost}
