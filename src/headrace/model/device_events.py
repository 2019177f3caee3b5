"""Events of devices and templates: pairs that move, what that was decided by, and devices that are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from headrace.model.amounts import format_seconds
from headrace.model.happening import Happening


@dataclass(frozen=True, slots=True)
class TemplateHappening(Happening):
    """What events of templates have in common."""

    template: str

    @property
    def about(self) -> Mapping[str, tuple[str, ...]]:
        return {"templates": (self.template,)}


@dataclass(frozen=True, slots=True)
class PairsMoved(TemplateHappening):
    """Some pairs run elsewhere from now on; `pairs` there are in all, of which `on_devices` run on devices now."""

    name: ClassVar[str] = "pairs moved"
    to_devices: int
    to_cloud: int
    pairs: int
    on_devices: int

    @property
    def text(self) -> str:
        moved = f"{self.to_devices:,} moved to a device, {self.to_cloud:,} to the cloud"
        return f'template "{self.template}": {moved}; {self.on_devices:,} of {self.pairs:,} pairs run on devices now'


@dataclass(frozen=True, slots=True)
class MovesDropped(TemplateHappening):
    """Pairs stay where they were, since a device did not answer; `device` is one of them."""

    name: ClassVar[str] = "moves dropped"
    is_warning: ClassVar[bool] = True
    pairs: int
    device: str

    @property
    def text(self) -> str:
        stay = "1 pair stays where it is" if self.pairs == 1 else f"{self.pairs:,} pairs stay where they are"
        return f'template "{self.template}": {stay}, since device "{self.device}" did not answer'


@dataclass(frozen=True, slots=True)
class ProgramRefused(TemplateHappening):
    """A device does not run the template's program, and says why: its pairs run elsewhere."""

    name: ClassVar[str] = "program refused"
    is_warning: ClassVar[bool] = True
    device: str

    @property
    def text(self) -> str:
        return f'device "{self.device}" does not run template "{self.template}"; its pairs run elsewhere'


@dataclass(frozen=True, slots=True)
class ChangesLost(TemplateHappening):
    """Changes that were to be posted to a webhook are not there any more: it was away for too long, or the view was
    declared anew.
    """

    name: ClassVar[str] = "changes lost"
    is_warning: ClassVar[bool] = True
    lost_s: float

    @property
    def text(self) -> str:
        lost = format_seconds(round(self.lost_s))
        return f'template "{self.template}": changes of {lost} are not posted; its receiver has to read all rows again'


@dataclass(frozen=True, slots=True)
class DeviceHappening(Happening):
    """What events of devices have in common; `devices` is their group."""

    devices: str

    @property
    def about(self) -> Mapping[str, tuple[str, ...]]:
        return {"devices": (self.devices,)}


@dataclass(frozen=True, slots=True)
class PairsRedeployed(DeviceHappening):
    """Pairs begin to move since staying has cost as much as moving. Costs are per second in the unit of prices.

    `ratio` is what was paid so far over the best of every period, `bound` what it cannot be more than; both are None
    where the best costs nothing.
    """

    name: ClassVar[str] = "redeployed"
    moves: int
    cost_s: float
    best_s: float
    loss: float
    moving: float
    ratio: float | None = None
    bound: float | None = None

    @property
    def text(self) -> str:
        cost = (
            f"{self.cost_s:.3g}/s instead of {self.best_s:.3g}/s cost {self.loss:.3g}, moving costs {self.moving:.3g}"
        )
        paid = "" if self.ratio is None else f"; paid so far {self.ratio:.2f} times the best"
        proven = "" if self.bound is None else f", proven at most {self.bound:.2f} times"
        return f'devices "{self.devices}": {self.moves:,} pairs move, since {cost}{paid}{proven}'


@dataclass(frozen=True, slots=True)
class DeviceForgotten(DeviceHappening):
    """A device was away for too long, or is no longer in its table: results of its data are gone."""

    name: ClassVar[str] = "device forgotten"
    is_warning: ClassVar[bool] = True
    device: str
    pairs: int
    away_s: float

    @property
    def text(self) -> str:
        away = (
            f"was away for {format_seconds(round(self.away_s))}" if self.away_s > 0 else "is not in its table any more"
        )
        views = f"{self.pairs:,} {'pair' if self.pairs == 1 else 'pairs'}"
        return f'device "{self.device}" of "{self.devices}" {away} and is forgotten; {views} of it have no results'
