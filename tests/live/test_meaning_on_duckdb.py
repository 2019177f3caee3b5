"""DuckDB, made by other people from another text of the same language, answers portable queries as we do.

What is not portable, and why, is said in `headrace.testing.queries`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import sqlglot
from hypothesis import given

from headrace.model.types import Row
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from tests.live.agreement import LONG, QUICK, Question, answer_or_reject, as_numbers, columns_of, questions, report

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@pytest.fixture(scope="module")
def duckdb() -> Iterator[DuckDBPyConnection]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def answer_of(duckdb: DuckDBPyConnection, question: Question) -> list[Row]:
    for name, table in question.tables.items():
        duckdb.register(name, arrow_table(columns_of(name), list(table.rows())))
    (sql,) = sqlglot.transpile(question.sql, read="spark", write="duckdb")
    return rows_of_arrow(duckdb.sql(sql).to_arrow_table())


def check(duckdb: DuckDBPyConnection, question: Question) -> None:
    ours = answer_or_reject(question)
    problem = report(question, as_numbers(ours), as_numbers(answer_of(duckdb, question)))
    assert problem is None, problem


@QUICK
@given(questions(portable=True))
def test_a_random_portable_query_means_what_duckdb_answers(duckdb: DuckDBPyConnection, question: Question):
    check(duckdb, question)


@pytest.mark.long
@LONG
@given(questions(portable=True))
def test_many_random_portable_queries_mean_what_duckdb_answers(duckdb: DuckDBPyConnection, question: Question):
    check(duckdb, question)
