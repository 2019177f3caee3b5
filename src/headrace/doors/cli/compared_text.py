"""How views compare with their queries, for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.doors.cli.output import count, table, wrap
from headrace.model import amounts
from headrace.model.types import Row

if TYPE_CHECKING:
    from headrace.app.reading import ComparedView, ComparedViews


def compared_lines(found: ComparedViews) -> Iterator[str]:
    """The verdict, each view with its result, and rows that differ as examples."""
    yield from wrap(_verdict(found), "")
    if found.views:
        yield from table([[view.contract, view.view, f"at {view.site}", _result(view)] for view in found.views])
    for view in found.views:
        if not view.equal:
            yield f"rows of {view.view} at {view.site}, for example:"
            for row in view.examples_missing:
                yield from wrap(_row(row), "  missing   ")
            for row in view.examples_extra:
                yield from wrap(_row(row), "  surplus   ")
    for one in found.not_compared:
        yield from wrap(f"{one.view} (contract {one.contract}) is not compared: {one.reason}", "")
    if found.views:
        waited = amounts.format_seconds(found.writers_waited_s)
        yield from wrap(f"writers to the databases waited for at most {waited}", "")


def _verdict(found: ComparedViews) -> str:
    wrong = sum(not view.equal for view in found.views)
    if wrong:
        return f"{wrong} of {count(len(found.views), 'view')} differ from their queries"
    rows = amounts.format_rows(sum(view.rows for view in found.views))
    if found.not_compared:
        compared = f"{len(found.views)} of {count(len(found.views) + len(found.not_compared), 'view')}"
        return f"{compared} could be compared, and none of them differs from its query ({rows})"
    return (
        f"every view equals its query: {count(len(found.views), 'view')}, {rows}, recomputed on the"
        " sources as of one moment, while they kept changing"
    )


def _result(view: ComparedView) -> str:
    if view.equal:
        return f"equal, {amounts.format_rows(view.rows)}"
    return f"{count(view.missing, 'row')} missing, {view.extra} too many, of {view.rows}"


def _row(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False, default=str)
