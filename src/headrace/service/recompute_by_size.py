"""Evaluates queries of an audit where it is quickest: here if the tables are small, else by a Spark of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.model.full_query import FullQuery
from headrace.model.running import DeclaredEngine
from headrace.model.types import Row
from headrace.run.arrow import rows_of_arrow
from headrace.run.functions import surroundings_of
from headrace.run.operators.recompute import in_order
from headrace.service.recompute import HERE_AT_MOST, Cut, Query, evaluate_here


class EvaluateBySize:
    """Starts Spark, with its files in `scratch`, when it is first needed, and ends it when left."""

    def __init__(self, scratch: Path, engine: DeclaredEngine | None = None, here_at_most: int = HERE_AT_MOST) -> None:
        self._scratch = scratch
        self._engine = engine or DeclaredEngine()
        self._here_at_most = here_at_most
        self._session: Any = None

    def __enter__(self) -> EvaluateBySize:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            from headrace.connect.spark.session import stop_session

            stop_session(self._session)

    def __call__(self, query: Query, cut: Cut) -> Iterable[Row]:
        if isinstance(query, FullQuery):
            return self._as_written(query, cut)
        if cut.rows(query) <= self._here_at_most:
            return evaluate_here(query, cut)
        from headrace.connect.spark.evaluate_tables import evaluate_tables

        python = surroundings_of(cut.functions).python
        return rows_of_arrow(evaluate_tables(self._spark(), query, cut.tables, cut.t, python))

    def _as_written(self, query: FullQuery, cut: Cut) -> Iterable[Row]:
        """A query that is not understood is for Spark, whatever the size."""
        from headrace.connect.spark.recompute import SparkEvaluate

        tables = {source: in_order(cut.tables[source]) for source in query.reads}
        return rows_of_arrow(SparkEvaluate(self._spark())(query, tables, cut.t, cut.functions))

    def _spark(self) -> Any:
        from headrace.connect.spark.session import start_session
        from headrace.service.engine_settings import spark_settings

        if self._session is None:
            self._session = start_session(spark_settings(self._engine, self._scratch, "headrace audit"))
        return self._session
