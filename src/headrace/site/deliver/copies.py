"""What a contract's copy is, and where: a table of another database, or a folder of the project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.connect.postgres.deliver import PostgresDelivery
from headrace.connect.postgres.delivered_table import DeliveredTable
from headrace.declare.variables import fill, project_environment
from headrace.model.catalogue import CopyPlace, DeltaFolder
from headrace.model.copy_places import name_place
from headrace.model.errors import Location
from headrace.model.relation import Field
from headrace.run.ports import Delivery

if TYPE_CHECKING:
    from headrace.connect.delta_delivery import DeliveredFolder


@dataclass(frozen=True, slots=True)
class CopyTarget:
    """Where a copy is; `dsn` is the address of a table, with its secrets, and `where` what people call the place."""

    copy: DeliveredTable | DeliveredFolder
    dsn: str = ""
    where: str = ""

    def open(self, epoch: int) -> Delivery:
        if isinstance(self.copy, DeliveredTable):
            return PostgresDelivery(self.dsn, self.copy, epoch)
        from headrace.connect.delta_delivery import DeltaDelivery

        return DeltaDelivery(self.copy, epoch)


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy: for whom it is, and of what: `meaning` is the fingerprint of the view's query."""

    project: str
    contract: str
    view: str
    meaning: str = ""
    freshness_s: float = 0.0
    columns: tuple[Field, ...] = ()


def target_of(
    about: Copied, to: CopyPlace, folder: Path, environment: Mapping[str, str], declared_at: Location | None = None
) -> CopyTarget:
    """Folders are below the project's. Raises `InputError` if a variable of the place is not set."""
    terms = (about.columns, about.project, about.contract, about.view, about.meaning, about.freshness_s)
    if isinstance(to, DeltaFolder):
        from headrace.connect.delta_delivery import DeliveredFolder  # large, and few have such copies

        path = folder / fill(to.path, environment, declared_at)
        return CopyTarget(DeliveredFolder(path, *terms), where=name_place(to))
    dsn = fill(to.dsn, project_environment(environment, folder), declared_at)
    return CopyTarget(DeliveredTable(to.table, *terms), dsn, name_place(to))
