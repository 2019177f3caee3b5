"""Compares views with their queries, evaluated from scratch on the sources as of the same time."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from headrace.connect.processes import birth_of
from headrace.coordinate.compare.compared import ComparedView, ComparedViews, NotCompared
from headrace.coordinate.compare.evaluate import HERE_AT_MOST, EvaluateBySize
from headrace.coordinate.compare.moment import MOVED_ON, Comparison, ComparisonWatch
from headrace.model.catalogue import Catalogue
from headrace.model.names import name_of_view
from headrace.model.plan import ContractPlan
from headrace.site.folder import Folder
from headrace.site.reading import ViewReader

TRIES = 3
"""At how many moments a view is compared that moved on before it was read, or is recomputed in full."""


def compare_views(
    reader: ViewReader,
    folder: Folder,
    environment: Mapping[str, str],
    push: Callable[[int], object],
    watch: ComparisonWatch | None = None,
    here_at_most: int = HERE_AT_MOST,
) -> ComparedViews:
    """All views of what runs. `push` brings them to a time, or asks the service to; `folder` has room for files.

    Spark evaluates queries over tables of more than `here_at_most` rows.
    A view that is refreshed in full is known at the times of its pushes alone: one that was pushed past the time of the
    cut in the meantime is compared again.
    """
    found: dict[str, ComparedView] = {}
    left_out: dict[str, str] = {}
    waited_s, catalogue = 0.0, reader.plan.catalogue
    compared = list(reader.plan.contracts)
    with (
        make_scratch(folder) as scratch,
        EvaluateBySize(scratch, catalogue.engine, reader.program.functions, here_at_most) as evaluate,
    ):
        for number in range(TRIES):
            moment = Comparison(
                reader, folder.project, environment, scratch / str(number), evaluate, watch or ComparisonWatch()
            )
            now = moment.compare(compared, push)
            found |= {one.contract: one for one in now.views}
            left_out = {**left_out, **now.left_out}
            waited_s = max(waited_s, now.writers_waited_s)
            compared = [one for one in compared if has_another_try(catalogue, one, found, left_out)]
            left_out = {name: why for name, why in left_out.items() if name not in {one.contract for one in compared}}
            if not compared:
                break
        left_out |= {one.contract: MOVED_ON for one in compared if one.contract not in found}
    views = {one.contract: name_of_view(one.view) for one in reader.plan.contracts}
    reasons = tuple(NotCompared(views[name], name, why) for name, why in left_out.items() if name not in found)
    return ComparedViews(tuple(found.values()), reasons, waited_s)


def has_another_try(
    catalogue: Catalogue, contract: ContractPlan, found: Mapping[str, ComparedView], left_out: Mapping[str, str]
) -> bool:
    """Whether a view may only have been pushed past the time of a comparison, and is compared again."""
    if contract.contract in found:
        return catalogue.is_in_full(contract.contract) and not found[contract.contract].equal
    return left_out.get(contract.contract) == MOVED_ON


@contextmanager
def make_scratch(folder: Folder) -> Iterator[Path]:
    """A folder beside the store, so that files can be kept by links. One of an audit that was killed goes now."""
    folder.audit.mkdir(parents=True, exist_ok=True)
    for left in folder.audit.iterdir():
        pid, _, birth = left.name.partition("-")
        if pid.isdecimal() and str(birth_of(int(pid))) != birth.partition("-")[0]:
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-{birth_of(os.getpid())}-", dir=folder.audit))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
