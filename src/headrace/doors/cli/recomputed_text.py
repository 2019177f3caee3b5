"""How views compare with their queries, for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.doors.cli.output import count, wrap
from headrace.model import amounts
from headrace.model.types import Row

if TYPE_CHECKING:
    from headrace.app.reading import Recomputation


def recomputed_lines(found: Recomputation) -> Iterator[str]:
    """The verdict, and rows that differ as examples."""
    if found.equal and found.views:
        rows = sum(view.rows for view in found.views)
        yield from wrap(
            f"every view equals its query: {count(len(found.views), 'view')}, {amounts.format_rows(rows)}, computed"
            " from scratch on the databases at one moment, while they went on changing",
            "",
        )
    for view in found.views:
        if not view.equal:
            yield f"{view.view} at {view.site} is not what its query says:"
            yield f"  {count(view.missing, 'row')} missing, {view.extra} too many, of {view.rows}"
            for row in view.examples_missing:
                yield from wrap(_row(row), "  missing   ")
            for row in view.examples_extra:
                yield from wrap(_row(row), "  too many  ")
    for name, why in found.left_out.items():
        yield from wrap(f"{name} is not compared: {why}", "")


def _row(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False, default=str)
