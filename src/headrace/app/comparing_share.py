"""The process in which a site does its share of a comparison over several sites.

    python -m headrace.app.comparing_share FOLDER COMPARISON

It is a process of its own, so that views are kept meanwhile: evaluating queries takes memory, and a processor. The
site's agent passes on what the coordinator asks, a line of JSON each, and its answers. When its input ends, so does it:
databases are let go of, and its files go.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.app.reading import find_trouble
from headrace.connect.input_lines import lines_of
from headrace.connect.lean_start import keep_pandas_out
from headrace.connect.wire.addresses import read_address
from headrace.connect.wire.client import WireAddress, WireClient
from headrace.connect.wire.compared_rows import HttpRowsGiver
from headrace.connect.wire.contexts import IDENTITY_FOLDER, WireIdentity
from headrace.connect.wire.snapshot_files import SnapshotFiles
from headrace.coordinate.compare.committing import ask_for_views
from headrace.coordinate.compare.compare import make_scratch
from headrace.coordinate.compare.evaluate import EvaluateBySize
from headrace.coordinate.compare.moment import Comparison, ComparisonWatch
from headrace.coordinate.compare.site_share import ShareSurroundings, SiteShare
from headrace.model.errors import HeadraceError, UsageError
from headrace.site.folder import Folder
from headrace.site.kept_stays import remember_stays
from headrace.site.membership import read_neighbours
from headrace.site.reading import open_reader

POLITE = 5
"""How much others go first: keeping views fresh matters more than comparing them soon."""


def share_comparison(folder: Folder, comparison: str, lines: Iterator[str], say: Callable[[str], None]) -> None:
    """Answers lines until there are no more."""
    reader = open_reader(folder)
    site = reader.plan.site
    if site is None:
        raise UsageError(f'"{folder.project}" is not the folder of a site that has joined', "see docs/sites.md")
    identity, catalogue = WireIdentity(folder.root / IDENTITY_FOLDER), reader.plan.catalogue

    def find_giver(other: str) -> HttpRowsGiver:
        def find() -> WireAddress | None:
            address = read_neighbours(folder).addresses.get(other)
            return None if address is None else read_address(address)

        return HttpRowsGiver(WireClient(other, find, identity), comparison)

    watch = ComparisonWatch(trouble_of=lambda contract: find_trouble(folder, contract))
    engine = catalogue.sites[site].engine or catalogue.engine
    with (
        make_scratch(folder) as scratch,
        EvaluateBySize(scratch, engine, reader.program.functions) as evaluate,
    ):
        around = ShareSurroundings(
            remember_stays(folder, reader.plan),
            SnapshotFiles(scratch / "given"),
            SnapshotFiles(scratch / "others"),
            find_giver,
            ask_for_views(reader.ledger),
        )
        moment = Comparison(reader, folder.project, os.environ, scratch / "moment", evaluate, watch)
        share = SiteShare(moment, site, around)
        try:
            for line in lines:
                asked = json.loads(line)
                say(json.dumps({**_answer(share, asked, scratch), "number": asked["number"]}))
        finally:
            share.close()


def _answer(share: SiteShare, asked: Mapping[str, Any], scratch: Path) -> dict[str, Any]:
    try:
        match asked["do"]:
            case "open":
                return {"unreadable": share.open(), "given": str(scratch / "given")}
            case "cut":
                why_not, unreadable = share.cut(int(asked["t"]))
                return {"why_not": why_not, "unreadable": unreadable}
            case "begin":
                share.begin(int(asked["t"]), frozenset(map(str, asked["contracts"])))
                return {}
            case "look":
                return share.look()
            case unknown:
                return {"error": f'nobody knows how to "{unknown}"'}
    except HeadraceError as error:
        return {"error": str(error)}
    except Exception as error:  # the coordinator is told, and the process goes on
        logging.getLogger("headrace.audit").exception("%s failed", asked.get("do"))
        return {"error": f"{type(error).__name__}: {error}"}


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    os.nice(POLITE)
    keep_pandas_out()
    directory, comparison = arguments
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed in this process is no answer

    def say(line: str) -> None:
        print(line, file=answers, flush=True)

    try:
        share_comparison(Folder(Path(directory)), comparison, lines_of(sys.stdin.fileno()), say)
    except HeadraceError as error:
        say(json.dumps({"error": str(error)}))
        return 2
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # threads may still wait for other sites, and nobody waits for them
