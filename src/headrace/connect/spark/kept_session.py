"""The Spark of a service: started, started again when it has died, and ended, whatever it is doing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from headrace.connect.spark.items import HEAVY_MODULES, SparkRunner, warm_up
from headrace.connect.spark.recompute import DrivingRunner
from headrace.connect.spark.session import (
    SparkSettings,
    abandon_session,
    end_starting,
    is_alive,
    start_session,
    stop_session,
)
from headrace.run.items import Item
from headrace.run.ports import Runner


@dataclass(slots=True)
class KeptSession:
    """`perform` is a function of a module that Spark's workers can import. Nobody else uses the settings' scratch.

    Items that need the session itself are performed here, with `evaluate` for what they ask of it.
    """

    settings: SparkSettings
    perform: Callable[..., Any]
    needs_session: Callable[[Item], bool] = lambda _: False
    _session: SparkSession | None = field(default=None, init=False)

    def start(self) -> Runner[Any]:
        """Returns when workers are warm. What an earlier session left is removed."""
        if self._session is not None:
            abandon_session(self._session)
            self._session = None
        shutil.rmtree(self.settings.scratch / "spill", ignore_errors=True)
        self._session = start_session(self.settings)
        warm_up(self._session, (*HEAVY_MODULES, self.perform.__module__))
        return DrivingRunner(SparkRunner(self._session, self.perform), self.needs_session)

    def is_alive(self, runner: Runner[Any]) -> bool:
        return isinstance(runner, DrivingRunner) and runner.session is self._session and is_alive(runner.session)

    def end(self) -> None:
        if self._session is None:
            end_starting(self.settings)
        else:
            stop_session(self._session)
