"""Combines pushes of vertices that build on each other into one item, if they are too small for a job per level."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.model.bad_row import BadRow
from headrace.model.log import PieceKind
from headrace.run.ports import Evaluate
from headrace.run.push.evaluate_here import evaluate_here
from headrace.run.push.items import bad_row_of, describe
from headrace.run.push.work import Files, Produced, WorkItem, perform_push


@dataclass(frozen=True, slots=True)
class ChainItem:
    """Pushes of vertices that build on each other, inputs first, done one after the other in one place.

    For small pushes this is quicker than a job for each level: what one makes the next reads at once.
    """

    items: tuple[WorkItem, ...]

    @property
    def name(self) -> str:
        return self.items[-1].name

    @property
    def weight(self) -> float:
        return sum(item.weight for item in self.items)


@dataclass(frozen=True, slots=True)
class ChainOutcome:
    """What became of one push of a chain: what it made, or why it could not. Times are those of `ItemOutcome`."""

    vertex: str
    produced: Produced | None
    error: str | None
    seconds: float
    waited_s: float = 0.0
    bad_row: BadRow | None = None


def perform_chain(chain: ChainItem, evaluate: Evaluate = evaluate_here) -> tuple[ChainOutcome, ...]:
    """A push that fails takes along only those that build on it."""
    done: list[ChainOutcome] = []
    made: dict[str, Produced] = {}
    failed: set[str] = set()
    for item in chain.items:
        started = time.perf_counter()
        error, bad_row = None, None
        if failed & set(item.task.reads):
            error = "an input could not be pushed"
        else:
            try:
                made[item.name] = perform_push(_with_made(item, made), evaluate)
            except Exception as raised:
                error, bad_row = describe(raised), bad_row_of(raised)
        if error is not None:
            failed.add(item.name)
        done.append(ChainOutcome(item.name, made.get(item.name), error, time.perf_counter() - started, bad_row=bad_row))
    return tuple(done)


def _with_made(item: WorkItem, made: Mapping[str, Produced]) -> WorkItem:
    """An item that also reads what earlier ones of its chain have made."""
    changes, indexes, whole = dict(item.changes), dict(item.indexes), dict(item.whole)
    for name in item.task.reads:
        if name in made:
            site = changes[name].site
            for log, piece in made[name].pieces:
                if log == name and piece.kind is PieceKind.CHANGE:
                    changes[name] = changes[name].and_also(piece)
                    if name in whole:
                        whole[name] = whole[name].and_also(piece)
                elif log == name:
                    indexes[name, piece.key] = indexes.get((name, piece.key), Files(site)).and_also(piece)
    return replace(item, changes=changes, indexes=indexes, whole=whole)
