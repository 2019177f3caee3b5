"""What happened in a project, as a closed union: every door shows it, and `observe` computes its numbers from it.

An event's document is `{at, kind, about, text, reason, numbers}`. What it is about and its numbers follow from the
names of its fields: `contract` or `sources` say what it is about, and every number is named with its unit (`lag_s`
seconds, `sent_bytes`, `saving_h` $/h, `cost` $). `event_wire` writes and reads events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from headrace.model.amounts import format_seconds
from headrace.model.device_events import (
    ChangesLost,
    DeviceForgotten,
    MovesDropped,
    PairsMoved,
    PairsRedeployed,
    ProgramRefused,
)
from headrace.model.feed_events import CalibrationFailed, FeedCalibrated, PairsFlipped, StoreLeft
from headrace.model.happening import Happening, seconds_text
from headrace.model.plan_events import (
    ApplyFailed,
    ContractAdmitted,
    ContractLeftOut,
    ContractLoaded,
    ContractRefused,
    ContractsMoved,
    MoveFailed,
    PlanApplied,
    SourcesReread,
    ViewsCompared,
)
from headrace.model.push_events import (
    CaptureEnded,
    ChangesCaptured,
    DatasetsPushed,
    DatasetsStored,
    DeviceProcessEnded,
    FeedServerEnded,
    LogsKeptUp,
)
from headrace.model.trouble import TroubleKind

# The service


@dataclass(frozen=True, slots=True)
class ServiceStarted(Happening):
    name: ClassVar[str] = "started"
    pid: int

    @property
    def text(self) -> str:
        return f"the service started as process {self.pid}"


@dataclass(frozen=True, slots=True)
class ServiceRecovered(Happening):
    """A start after a run that ended unexpectedly. `away_s` is how long nobody kept the promises."""

    name: ClassVar[str] = "recovered"
    died_pid: int
    away_s: float

    @property
    def text(self) -> str:
        ended = f"the last run (process {self.died_pid}) ended unexpectedly, {seconds_text(self.away_s)} ago"
        return f"{ended}; the service continues from its last commit"


@dataclass(frozen=True, slots=True)
class ServiceStopped(Happening):
    """It has a reason if it failed."""

    name: ClassVar[str] = "stopped"
    pid: int

    @property
    def text(self) -> str:
        return f"the service stopped (process {self.pid})"


@dataclass(frozen=True, slots=True)
class ServiceSuspended(Happening):
    """The process stood still (a closed laptop, SIGSTOP), and nobody else took over the project."""

    name: ClassVar[str] = "suspended"
    is_warning: ClassVar[bool] = True
    suspended_s: float

    @property
    def text(self) -> str:
        suspended = f"the service was suspended for {seconds_text(self.suspended_s)}"
        return f"{suspended}; no other process took over the project, so it continues"


# Promises


@dataclass(frozen=True, slots=True)
class ContractLate(Happening):
    name: ClassVar[str] = "late"
    is_warning: ClassVar[bool] = True
    contract: str
    lag_s: float
    freshness_s: float

    @property
    def text(self) -> str:
        behind = f"{seconds_text(self.lag_s)} behind; the promise is {format_seconds(self.freshness_s)}"
        return f'contract "{self.contract}" is late: {behind}'


@dataclass(frozen=True, slots=True)
class ContractKeptAgain(Happening):
    """`late_s` is for how long it was late, None if that is not known."""

    name: ClassVar[str] = "kept again"
    contract: str
    lag_s: float
    freshness_s: float
    late_s: float | None = None

    @property
    def text(self) -> str:
        after = "" if self.late_s is None else f" after {seconds_text(self.late_s)}"
        return f'contract "{self.contract}" is kept again{after}: {seconds_text(self.lag_s)} behind'


# Troubles


@dataclass(frozen=True, slots=True)
class TroubleBegan(Happening):
    """`named` is the source, database or contract that it is about; `what` says why."""

    is_warning: ClassVar[bool] = True
    trouble: TroubleKind
    named: str
    what: str

    @property
    def kind(self) -> str:
        return self.trouble.begins

    @property
    def text(self) -> str:
        return self.what

    @property
    def about(self) -> Mapping[str, tuple[str, ...]]:
        return about_trouble(self.trouble, self.named)


@dataclass(frozen=True, slots=True)
class TroubleOver(Happening):
    trouble: TroubleKind
    named: str
    what: str
    lasted_s: float

    @property
    def kind(self) -> str:
        return self.trouble.ends

    @property
    def text(self) -> str:
        return f"resolved: {self.what}"

    @property
    def about(self) -> Mapping[str, tuple[str, ...]]:
        return about_trouble(self.trouble, self.named)


def about_trouble(trouble: TroubleKind, named: str) -> Mapping[str, tuple[str, ...]]:
    return {} if trouble.about is None else {trouble.about: (named,)}


@dataclass(frozen=True, slots=True)
class UnknownEvent(Happening):
    """Written by another version: `fields` are what it kept."""

    of_kind: str
    fields: Mapping[str, object]

    @property
    def kind(self) -> str:
        return self.of_kind

    @property
    def text(self) -> str:
        return "another version of Headrace wrote this event"


Event = (
    ServiceStarted
    | ServiceRecovered
    | ServiceStopped
    | ServiceSuspended
    | DatasetsPushed
    | ChangesCaptured
    | CaptureEnded
    | FeedServerEnded
    | DeviceProcessEnded
    | DatasetsStored
    | LogsKeptUp
    | ContractLate
    | ContractKeptAgain
    | PlanApplied
    | ApplyFailed
    | ContractRefused
    | ContractAdmitted
    | ContractsMoved
    | MoveFailed
    | ContractLeftOut
    | ContractLoaded
    | SourcesReread
    | PairsFlipped
    | PairsMoved
    | MovesDropped
    | ProgramRefused
    | ChangesLost
    | PairsRedeployed
    | DeviceForgotten
    | FeedCalibrated
    | CalibrationFailed
    | StoreLeft
    | TroubleBegan
    | TroubleOver
    | ViewsCompared
    | UnknownEvent
)
