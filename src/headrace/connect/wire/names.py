"""What a certificate calls its owner: a site of the project, or the process that coordinates; and which instance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote

SITE, COORDINATOR, INSTANCE = "headrace:site:", "headrace:coordinator", "headrace:instance:"


@dataclass(frozen=True, slots=True)
class WireName:
    """A site, or None for the process that coordinates. Two folders that run the same site are two instances."""

    site: str | None
    instance: str

    @property
    def is_coordinator(self) -> bool:
        return self.site is None

    @property
    def shown(self) -> str:
        return "the coordinator" if self.site is None else f'site "{self.site}"'

    def to_uris(self) -> tuple[str, str]:
        """A site may have any name, and URIs hold ASCII alone."""
        who = COORDINATOR if self.site is None else SITE + quote(self.site, safe="")
        return who, INSTANCE + quote(self.instance, safe="")


def read_uris(uris: Iterable[str]) -> WireName | None:
    """None of a certificate that is not one of ours."""
    found = list(uris)
    who = [one for one in found if one == COORDINATOR or one.startswith(SITE)]
    instances = [one for one in found if one.startswith(INSTANCE)]
    if len(who) != 1 or len(instances) != 1:
        return None
    site = None if who[0] == COORDINATOR else unquote(who[0].removeprefix(SITE))
    return WireName(site, unquote(instances[0].removeprefix(INSTANCE)))
