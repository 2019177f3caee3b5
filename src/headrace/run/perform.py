"""Performs any item of the engine."""

from __future__ import annotations

from headrace.run.load_work import Loaded, LoadItem, perform_load
from headrace.run.work import Produced, WorkItem
from headrace.run.work import perform as perform_push


def perform(item: WorkItem | LoadItem) -> Produced | Loaded:
    return perform_load(item) if isinstance(item, LoadItem) else perform_push(item)
