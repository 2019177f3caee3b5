"""Performs any item of the engine."""

from __future__ import annotations

from headrace.run.feeds.apply import FeedApplied, FeedApplyItem, perform_apply
from headrace.run.load.load_work import Loaded, LoadItem, perform_load
from headrace.run.logs.history import GatherItem, perform_gather
from headrace.run.logs.upkeep_work import ReplacedPieces, UpkeepItem, perform_upkeep
from headrace.run.ports import Evaluate
from headrace.run.program import OperatorStep, RecomputeStep
from headrace.run.push.chains import ChainItem, ChainOutcome, perform_chain
from headrace.run.push.evaluate_here import SMALL_ROWS, evaluate_here
from headrace.run.push.items import Item
from headrace.run.push.work import Produced, WorkItem, perform_push

EngineItem = WorkItem | ChainItem | LoadItem | UpkeepItem | GatherItem | FeedApplyItem


def needs_session(item: Item) -> bool:
    """Whether an item evaluates a query that is for an engine that reads SQL: not understood, or over many rows."""
    match item:
        case WorkItem():
            rows = sum(piece.rows for files in item.whole.values() for piece in files.pieces)
            return _is_large(item.task.step, rows)
        case ChainItem():
            return any(map(needs_session, item.items))
        case LoadItem():
            rows = sum(piece.rows for files in item.kept.values() for piece in files.pieces)
            return any(_is_large(item.program.tasks[name].step, rows) for name in _find_made(item))
        case _:
            return False


def _find_made(item: LoadItem) -> set[str]:
    """The vertices whose contents a loading computes: new ones, and whatever they are made of that keeps none."""
    found, pending = set[str](), list(item.new)
    while pending:
        name = pending.pop()
        if name in item.program.tasks and name not in found:
            found.add(name)
            pending.extend(read for read in item.program.tasks[name].reads if read not in item.kept)
    return found


def _is_large(step: OperatorStep, rows: int) -> bool:
    return isinstance(step, RecomputeStep) and (step.recomputed.query is None or rows > SMALL_ROWS)


def perform(
    item: EngineItem, evaluate: Evaluate = evaluate_here
) -> Produced | tuple[ChainOutcome, ...] | Loaded | ReplacedPieces | FeedApplied:
    """`evaluate` is for views that are recomputed."""
    match item:
        case WorkItem():
            return perform_push(item, evaluate)
        case ChainItem():
            return perform_chain(item, evaluate)
        case LoadItem():
            return perform_load(item, evaluate)
        case UpkeepItem():
            return perform_upkeep(item)
        case GatherItem():
            return perform_gather(item)
        case FeedApplyItem():
            return perform_apply(item)
