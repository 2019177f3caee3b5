"""Evaluates queries of an audit over files where it is fastest: here if the tables are small, else by Spark."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from headrace.connect.tables.parts import read_parts
from headrace.coordinate.compare.sources import Query, SourceFile, sources_of
from headrace.meaning.python_functions import Functions, surroundings_of
from headrace.model.errors import ConnectError
from headrace.model.full_query import FullQuery
from headrace.model.options import DeclaredEngine
from headrace.model.relation import Field, fields_of
from headrace.run.push.evaluate_here import rows_here
from headrace.run.rows.arrow import arrow_table, arrow_type
from headrace.run.rows.compare import Parts, add_weights
from headrace.run.schedule.deadlines import Patience
from headrace.site.engine.timed_runner import ask, ends_within

HERE_AT_MOST = 300_000
"""Rows of tables that one process evaluates a query over; Spark does, if there are more."""
SAY_EVERY_S = 2.0
DEFAULT_PATIENCE = Patience()
PARTITIONS = 16
"""Each holds a sixteenth of a join's larger side; what does not fit is spilled to the scratch folder."""


class EvaluateBySize:
    """Starts Spark, with its files in `scratch`, when it is first needed, and ends it when left.

    A Spark that this process has already is used, and goes on. One that was started here and does not answer is killed:
    its query then raises ConnectError.
    """

    def __init__(
        self,
        scratch: Path,
        engine: DeclaredEngine,
        functions: Functions,
        here_at_most: int = HERE_AT_MOST,
        patience: Patience = DEFAULT_PATIENCE,
    ) -> None:
        self._scratch = scratch
        self._engine = engine
        self._functions = functions
        self._here_at_most = here_at_most
        self._patience = patience
        self._session: Any = None
        self._started = False
        self._answers = 0

    def __enter__(self) -> EvaluateBySize:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started:
            from headrace.connect.spark.session import stop_session

            if not ends_within(lambda: stop_session(self._session), self._patience.answer_s):
                self._kill()

    @contextmanager
    def _telling(self, say: Callable[[str], None]) -> Iterator[None]:
        """Says how far Spark is, while it works."""
        ended = threading.Event()

        def tell() -> None:
            while not ended.wait(SAY_EVERY_S):
                progress = ask(self._progress, self._patience.answer_s)
                if progress is None and self._started:
                    self._kill()  # the thread that waits for its answer then gets an error
                    return
                say(progress or "")

        teller = threading.Thread(target=tell, name="telling", daemon=True)
        teller.start()
        try:
            yield
        finally:
            ended.set()
            teller.join()

    def _progress(self) -> str:
        if self._session is None:
            return ""
        from headrace.connect.spark.evaluate_files import tasks_of

        done, tasks = tasks_of(self._session)
        return f": {done} of {tasks} tasks" if tasks else ""

    @contextmanager
    def answer(
        self, query: Query, files: Mapping[str, SourceFile], t: int, say: Callable[[str], None]
    ) -> Iterator[Parts]:
        """The rows of a query over sources, as of a time; they can be read until this is left."""
        rows = sum(files[source].rows for source in sources_of(query))
        if not isinstance(query, FullQuery) and rows <= self._here_at_most:
            tables = {source: files[source].table(source) for source in sources_of(query)}
            types = {f"c{position}": field.type for position, field in enumerate(fields_of(query))}
            found = add_weights(arrow_table(types, list(rows_here(query, tables, t, self._functions))))
            yield lambda: [found]
            return
        self._answers += 1
        answer = self._scratch / f"answer-{self._answers}"
        try:
            with self._telling(say):
                self._evaluate(query, files, t, answer)
            fields = query.fields if isinstance(query, FullQuery) else fields_of(query)
            yield lambda: map(add_weights, read_parts(answer, _schema(fields)))
        finally:
            shutil.rmtree(answer, ignore_errors=True)

    def _evaluate(self, query: Query, files: Mapping[str, SourceFile], t: int, answer: Path) -> None:
        try:
            from headrace.connect.spark.evaluate import ParquetTable
            from headrace.connect.spark.evaluate_files import FileEvaluator
        except ImportError as error:
            raise ConnectError(f"its query has to be evaluated by Spark, which is not installed: {error}") from error
        tables = {source: ParquetTable(files[source].path, files[source].columns) for source in sources_of(query)}
        FileEvaluator(self._spark(), surroundings_of(self._functions).python).evaluate(query, tables, t, answer)

    def _spark(self) -> Any:
        from headrace.connect.spark.properties import Profile
        from headrace.connect.spark.session import end_starting, has_session, start_session
        from headrace.site.engine.settings import spark_settings

        if self._session is None:
            declared = spark_settings(self._engine, self._scratch / "spark", "headrace audit")
            wanted = replace(declared, partitions=PARTITIONS, profile=Profile.CLUSTER, standing=0)
            settings, started = wanted, not has_session()
            limit = threading.Timer(self._patience.start_s, end_starting, (settings,))
            limit.daemon = True
            limit.start()
            try:
                self._session = start_session(settings)
            finally:
                limit.cancel()
            self._started = started
        return self._session

    def _kill(self) -> None:
        """A Java that does not answer: it would never end, and nobody else uses it."""
        from headrace.connect.spark.session import java_process

        java = java_process(self._session)
        if java is not None:
            java.kill()


def _schema(fields: tuple[Field, ...]) -> pa.Schema:
    return pa.schema([(f"c{position}", arrow_type(field.type)) for position, field in enumerate(fields)])
