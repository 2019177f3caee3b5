"""Decides how many tasks stand: as many as run side by side, but never so many that ordinary jobs find no slot."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from headrace.connect.spark.executors import count_executors
from headrace.connect.spark.properties import SparkSettings

MOST_ON_LOAN = 2
"""Standing tasks where executors come and go with the work, unless the project says more: they never go idle."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Where tasks of a session can run: slots of all executors together, how many executors, and whether they stay."""

    slots: int
    executors: int
    come_and_go: bool = False


def count_standing(settings: SparkSettings, found: Slots) -> int:
    """Locally as many as asked for: the master has slots for them. On a cluster, at least one slot of each executor
    stays free.
    """
    if settings.master.startswith("local"):
        return settings.standing or 0
    room = max(0, found.slots - found.executors)
    asked = settings.standing
    if asked is None:
        asked = MOST_ON_LOAN if found.come_and_go else room
    return min(asked, room)


def find_slots(session: SparkSession) -> Slots:
    """The executors that are there now."""
    context = session.sparkContext._jsc.sc()
    slots = context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile())
    come_and_go = session.sparkContext.getConf().get("spark.dynamicAllocation.enabled") == "true"
    return Slots(int(slots), count_executors(session), come_and_go)
