"""Keeps a copy of a view, made for other programs, equal to the view.

The copy itself records which time it has reached. So a delivery that was interrupted anywhere, before or after its
commit, is simply repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from headrace.meaning.python_functions import Functions
from headrace.model.log import Log
from headrace.model.relation import Field, Output
from headrace.run.ports import Delivery, Store
from headrace.run.views.view import net_changes, rows_at


class NextStep(Enum):
    """What brings a copy to a time: nothing, the changes since its own time, or all rows."""

    NOTHING = "nothing"
    APPLY = "apply"
    START = "start"


def choose_step(before: int | None, logs: Iterable[Log], upto: int) -> NextStep:
    """The copy is at `before`, None if there is none. One whose changes are gone from a log, or that is ahead of what
    it is to reach, is made again.
    """
    if before is None or before > upto or any(before < log.start for log in logs):
        return NextStep.START
    return NextStep.APPLY if before < upto else NextStep.NOTHING


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
    step = NextStep.START if anew else choose_step(before, (log,), log.t)
    if step is NextStep.START:
        delivery.start(rows_at(store, log, columns, outputs, log.t, functions), log.t)
    elif step is NextStep.APPLY:
        assert before is not None
        delivery.apply(net_changes(store, log, columns, outputs, before, log.t, functions), before, log.t)
    return before
