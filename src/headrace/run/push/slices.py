"""Divides large pushes into items that run in parallel, and combines their results.

Rows that are passed on or joined do not depend on each other, so any part of the changes can be processed separately;
all parts of a push are committed together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headrace.run.ports import Runner
from headrace.run.program import JoinStep, Pass
from headrace.run.push.items import ItemOutcome
from headrace.run.push.work import Produced, WorkItem, is_free, perform_push

SLICE_ROWS = 1_000_000
"""Changed rows of one item; more would keep a worker, and its memory, for too long."""


def run_sliced(runner: Runner[Produced], items: Sequence[WorkItem]) -> list[ItemOutcome[Produced]]:
    """One outcome for each item. What only names files of others is done here: it needs no job."""
    slices = [[] if is_free(item) else list(slice_item(item)) for item in items]
    todo = [part for parts in slices for part in parts]
    done: Iterator[ItemOutcome[Produced]] = iter(runner.run(todo) if todo else [])
    return [
        whole([next(done) for _ in parts]) if parts else ItemOutcome(item.name, perform_push(item), None, 0.0)
        for item, parts in zip(items, slices, strict=True)
    ]


def slice_item(item: WorkItem, rows: int = SLICE_ROWS) -> Iterator[WorkItem]:
    """An item as parts of at most about so many changed rows, itself if it is small or cannot be cut."""
    match item.task.step:
        case JoinStep(changes):
            logs = {changes.log}
        case Pass(inputs):
            logs = {reading.log for reading in inputs}
        case _:
            logs = set()
    count = max(1, -(-sum(piece.rows for log in logs for piece in item.changes[log].pieces) // rows))
    for number in range(count):
        yield item if count == 1 else replace(item, part=(number, count), weight=item.weight / count)


def whole(parts: Sequence[ItemOutcome[Produced]]) -> ItemOutcome[Produced]:
    """What became of a push, from what became of its parts: a failure of one is that of all."""
    failed = [part for part in parts if part.value is None]
    seconds = sum(part.seconds for part in parts)
    if failed:
        return replace(failed[0], seconds=seconds, retryable=all(part.retryable for part in failed))
    made = [part.value for part in parts if part.value is not None]
    produced = replace(
        made[0],
        pieces=tuple(piece for one in made for piece in one.pieces),
        rows_in=sum(one.rows_in for one in made),
        rows_out=sum(one.rows_out for one in made),
        bytes=sum(one.bytes for one in made),
    )
    return ItemOutcome(parts[0].name, produced, None, seconds, waited_s=sum(part.waited_s for part in parts))
