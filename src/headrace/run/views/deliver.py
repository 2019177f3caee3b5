"""Keeps a copy of a view, made for other programs, equal to the view.

The copy itself records which time it has reached. So a delivery that was interrupted anywhere, before or after its
commit, is simply repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.meaning.python_functions import Functions
from headrace.model.log import Log
from headrace.model.relation import Field, Output
from headrace.run.ports import Delivery, Store
from headrace.run.views.view import net_changes, rows_at


def deliver(
    delivery: Delivery,
    store: Store,
    log: Log,
    columns: Sequence[Field],
    outputs: Sequence[Output],
    functions: Functions = (),
    expected: int | None = None,
    anew: bool = False,
) -> int | None:
    """Brings the copy to the log's time; returns the time it had before.

    A copy whose changes are gone from the log, or that is ahead of it, is made again from all rows; so is one that
    somebody else has changed, if it is to be made `anew`. Raises `CopyChanged` if it is not at the time that is
    `expected`, so that whoever did that is told of before it is put right.
    """
    before = delivery.delivered()
    if expected is not None and before != expected and not anew:
        delivery.check(expected)
    if anew or before is None or not log.start <= before <= log.t:
        delivery.start(rows_at(store, log, columns, outputs, log.t, functions), log.t)
    elif before < log.t:
        delivery.apply(net_changes(store, log, columns, outputs, before, log.t, functions), before, log.t)
    return before
