"""What a site that joined from elsewhere keeps in its folder: whom it belongs to, and what it was told last.

.headrace/membership.json   site, project, where the coordinator is, where it listens itself
.headrace/neighbours.json   where other sites are, who may not ask any more, and who coordinated last
.headrace/part.json         its part of the plan, as every site has it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.site.folder import Folder
from headrace.site.site_folders import PART_FILE, read_part_document

MEMBERSHIP_FILE, NEIGHBOURS_FILE = "membership.json", "neighbours.json"
SLICE_FORMAT = 1
"""What a coordinator sends a site. A higher number is refused with 426, and nothing new is planned for the site."""


@dataclass(frozen=True, slots=True)
class Membership:
    site: str
    project: str
    coordinator: str
    """Host and port."""
    host: str
    port: int
    """Where it listens: the same after every start, since others remember it."""


@dataclass(frozen=True, slots=True)
class ToldNeighbours:
    """`addresses` of other sites, host and port; `denied` are instances that may not ask.

    `coordinator_run` tells one start of a coordinator from another: copies of its folder count epochs alike. Earlier
    versions do not say it.
    """

    coordinator_epoch: int = 0
    addresses: Mapping[str, str] = field(default_factory=dict)
    denied: tuple[str, ...] = ()
    coordinator_run: str | None = None

    def is_fenced(self, epoch: int, run: str | None) -> bool:
        """Whether a coordinator may not tell this site anything, since another one has told it something."""
        if epoch != self.coordinator_epoch:
            return epoch < self.coordinator_epoch
        return run is not None and self.coordinator_run is not None and run != self.coordinator_run


def read_membership(folder: Folder) -> Membership | None:
    found = folder.read_json(MEMBERSHIP_FILE)
    try:
        return None if found is None else Membership(**found)
    except TypeError as error:
        raise folder.unreadable(MEMBERSHIP_FILE, "it does not say which site this is") from error


def write_membership(folder: Folder, membership: Membership) -> None:
    folder.prepare()
    folder.write_json(MEMBERSHIP_FILE, asdict(membership), is_durable=True)


def read_neighbours(folder: Folder) -> ToldNeighbours:
    found = folder.read_json(NEIGHBOURS_FILE)
    if found is None:
        return ToldNeighbours()
    try:
        epoch, run = int(found["coordinator_epoch"]), found.get("coordinator_run")
        return ToldNeighbours(epoch, dict(found["addresses"]), tuple(found["denied"]), run)
    except (TypeError, KeyError, ValueError) as error:
        raise folder.unreadable(NEIGHBOURS_FILE, "it does not say where other sites are") from error


def write_neighbours(folder: Folder, neighbours: ToldNeighbours) -> None:
    folder.write_json(NEIGHBOURS_FILE, asdict(neighbours), is_durable=True)


def forget_neighbours(folder: Folder) -> None:
    """Whoever told of them does not coordinate any more."""
    (folder.root / NEIGHBOURS_FILE).unlink(missing_ok=True)


def take_part_document(folder: Folder, document: Any) -> int:
    """Keeps the part that a coordinator has sent, if it can be read; its number. Raises UnreadableState: what was
    there before stays.
    """
    part = read_part_document(folder, document)
    folder.write_json(PART_FILE, document, indent=None, is_durable=True)
    return part.number
