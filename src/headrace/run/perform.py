"""Performs any item of the engine."""

from __future__ import annotations

from headrace.run.chains import ChainItem, Link, perform_chain
from headrace.run.load_work import Loaded, LoadItem, perform_load
from headrace.run.upkeep_work import Kept, UpkeepItem, perform_upkeep
from headrace.run.work import Produced, WorkItem, perform_push

EngineItem = WorkItem | ChainItem | LoadItem | UpkeepItem


def perform(item: EngineItem) -> Produced | tuple[Link, ...] | Loaded | Kept:
    match item:
        case WorkItem():
            return perform_push(item)
        case ChainItem():
            return perform_chain(item)
        case LoadItem():
            return perform_load(item)
        case UpkeepItem():
            return perform_upkeep(item)
