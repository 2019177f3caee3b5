"""Rows of a source as we hold them, for another site that checks a view which reads them: as of one time, without
stopping anybody, and without asking the source.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headrace.model.catalogue import Stays
from headrace.model.plan import Plan
from headrace.model.relation import Relation, scans_of
from headrace.run.check.held_source import find_base
from headrace.run.check.read_log import is_known_at, read_contents_at, repeat_by_weight
from headrace.run.ports import Ledger, Store
from headrace.run.program import Program
from headrace.run.push.engine import NotThereYet
from headrace.run.push.exports import ChangesGone, NotForReader

MOST_ROWS = 20_000
"""A check in the background costs little, or is not made."""


class TooManyRows(RuntimeError):
    """A source has more rows than a check fetches."""


def find_columns_for(plan: Plan, source: str, site: str) -> tuple[str, ...]:
    """The columns of a source that views of a site read; none if no contract there reads it."""
    entries = (*plan.contracts, *plan.elsewhere)
    queries = (plan.catalogue.views[entry.view].query for entry in entries if entry.site == site)
    read = {
        column
        for query in queries
        if isinstance(query, Relation)
        for scan in scans_of(query)
        if scan.source == source
        for column in scan.columns
    }
    return tuple(sorted(read))


def read_held_rows(
    plan: Plan,
    program: Program,
    kept: tuple[Ledger, Store],
    asked: tuple[str, str, int],
    stays: Mapping[str, Stays | None],
) -> pa.Table:
    """The rows of a source that a site asks for, as of a time. Raises NotForReader, NotThereYet, ChangesGone, and
    TooManyRows.
    """
    (ledger, store), (site, source, t) = kept, asked
    columns, bound = find_columns_for(plan, source, site), stays.get(source)
    if not columns or source not in plan.catalogue.sources:
        raise NotForReader(f'no view of site "{site}" reads source "{source}"')
    if bound is not None and site not in bound.sites:
        raise NotForReader(f'rows of source "{source}" may not be at site "{site}": see `stays` in docs/sites.md')
    name = find_base(program, source)
    log = ledger.logs([name]).get(name)
    if log is None or log.t < t:
        raise NotThereYet(f'source "{source}" is not read that far yet')
    if not is_known_at(log, t):
        raise ChangesGone(f'rows of source "{source}" at that time are not kept any more')
    if sum(piece.rows for piece in log.contents) > MOST_ROWS:
        raise TooManyRows(f'source "{source}" has more than {MOST_ROWS:,} rows')
    names = [f"{source}.{column}" for column in columns]
    return repeat_by_weight(read_contents_at(store, log, program.logs[name].columns, t)).select(names)
