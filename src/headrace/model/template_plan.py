"""What is planned for a template: how many pairs run on devices, and what travels between devices and the cloud.

A template is one vertex of the plan. Where its pairs run are rows of a relation, not vertices of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceTraffic:
    """Messages and bytes per second of streams, from devices (`up`) and to them (`down`); `cost` is prices times
    messages per second.
    """

    messages_up_s: float
    messages_down_s: float
    bytes_up_s: float
    bytes_down_s: float
    cost: float

    @property
    def messages_s(self) -> float:
        return self.messages_up_s + self.messages_down_s

    @property
    def bytes_s(self) -> float:
        return self.bytes_up_s + self.bytes_down_s


@dataclass(frozen=True, slots=True)
class TemplatePlan:
    """A template in the plan, as the vertex `vertex` at `site`, where the cloud's share of it runs. Its results are
    those of `view`; `group` is that of its devices, which compute the views `derived` themselves and send their rows.

    `all_cloud` is what would travel if every pair ran in the cloud, and `placed` what does where pairs are placed;
    `on_devices` pairs are placed on devices. Both are None if the rows of its tables were not read, for the reason in
    `unread`; then devices and pairs are as many as the tables are said to have rows. `cpu` are cores at sites, `link`
    bytes per second by link (from, to) and `disk` bytes at sites, of what serves its contracts with everything in the
    cloud, which is how a template begins. One that is refused has a `reason`, as contracts have.
    """

    template: str
    site: str
    vertex: str
    view: str
    group: str
    contracts: tuple[str, ...]
    devices: float
    pairs: float
    all_cloud: DeviceTraffic
    placed: DeviceTraffic | None
    on_devices: int | None
    method: str
    unread: str
    cpu: Mapping[str, float]
    link: Mapping[tuple[str, str], float]
    disk: Mapping[str, float]
    reason: str | None = None
    detail: str = ""
    smallest_staleness_s: float | None = None
    derived: tuple[str, ...] = ()
