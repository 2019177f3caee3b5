"""All sites of a project as one, for those who only read: an audit compares views with queries wherever they are.

Sites that run as processes of their own have a ledger and a store each. What is asked for by site is asked of that one;
what has a name is looked for at all of them, and no name is at two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

import pyarrow as pa

from headrace.coordinate.compare.committing import ask_for_views
from headrace.model.errors import UsageError
from headrace.model.log import Log, StoredFile
from headrace.model.notes import join_notes
from headrace.run.ports import Ledger, Store
from headrace.site.folder import Folder
from headrace.site.forced import read_forced_promises
from headrace.site.reading import ViewReader
from headrace.site.running import make_running
from headrace.site.site_folders import read_sites, site_folder


@dataclass(frozen=True, slots=True)
class JoinedLedger:
    """The ledgers of sites, by site. Nothing can be committed: each site commits its own."""

    ledgers: Mapping[str, Ledger]

    def times(self) -> Mapping[str, int]:
        return {name: log.t for name, log in self.logs().items()}

    def logs(self, names: Iterable[str] | None = None) -> Mapping[str, Log]:
        """A log that only says how far another site has it is none of its own."""
        asked = None if names is None else list(names)
        found = ((site, log) for site, ledger in self.ledgers.items() for log in ledger.logs(asked).values())
        return {log.name: log for site, log in found if log.site == site}

    def notes(self, prefix: str = "") -> Mapping[str, str]:
        return join_notes(self.ledgers.values(), prefix)

    def close(self) -> None:
        for ledger in self.ledgers.values():
            ledger.close()

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"nobody may ask for {name} at all sites at once")


@dataclass(frozen=True, slots=True)
class JoinedStore:
    """The stores of sites, by site."""

    stores: Mapping[str, Store]

    def read(self, site: str, file: StoredFile, columns: Sequence[str] | None = None, whole: bool = True) -> pa.Table:
        return self.stores[site].read(site, file, columns, whole)

    def pin(self, site: str, files: Sequence[str], folder: Path) -> Store:
        return self.stores[site].pin(site, files, folder)

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"nobody may ask for {name} at all sites at once")


@contextmanager
def open_joined(folder: Folder) -> Iterator[tuple[ViewReader, Callable[[int], None]]]:
    """A reader of all views of a project whose sites run apart, and what asks all sites to bring them to a time."""
    plan = folder.running()
    if plan is None:
        raise UsageError(f'the project in "{folder.project}" has not been loaded yet', "start it with `headrace up`")
    ran = make_running(plan, read_forced_promises(folder))
    folders = {site: site_folder(folder, site) for site in read_sites(folder)}
    ledgers = {site: one.ledger() for site, one in folders.items() if one.exists}
    ledger = JoinedLedger(ledgers)
    store = JoinedStore({site: one.store() for site, one in folders.items()})
    asks = [ask_for_views(one) for one in ledgers.values()]

    def push(t: int) -> None:
        for ask in asks:
            ask(t)

    try:
        yield ViewReader(ran.plan, ran.program, cast("Ledger", ledger), cast("Store", store), ran.forced), push
    finally:
        ledger.close()
