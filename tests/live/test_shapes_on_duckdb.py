"""DuckDB answers queries of all shapes as we do, on random tables with NULLs and duplicates."""

from __future__ import annotations

import random

import pytest
import sqlglot

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.errors import EvaluationError
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.testing import SCHEMA
from tests.live.agreement import as_numbers, columns_of
from tests.meaning.test_known_queries import changed, texts_in
from tests.queries.schemas import shapes

SEEDS = 8


@pytest.mark.parametrize("sql", shapes())
def test_a_query_of_any_shape_means_what_duckdb_answers(sql: str):
    import duckdb

    relation = read_query(sql, SCHEMA)
    (text,) = sqlglot.transpile(sql, read="spark", write="duckdb")
    compared = 0
    for seed in range(SEEDS):
        nothing = dict.fromkeys(SCHEMA, ZSet())
        tables = changed(nothing, SCHEMA, random.Random(seed), 1 + 2 * seed, texts_in(sql))
        try:
            ours = list(evaluate(relation, tables).rows())
        except EvaluationError:
            continue
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for name, table in tables.items():
                connection.register(name, arrow_table(columns_of(name), list(table.rows())))
            theirs = rows_of_arrow(connection.sql(text).to_arrow_table())
        assert sorted(map(repr, as_numbers(ours))) == sorted(map(repr, as_numbers(theirs)))
        compared += 1
    assert compared > SEEDS // 2
