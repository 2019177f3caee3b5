"""Chains of operators are read in the order in which Spark reads them, and written so that Spark keeps their order."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from headrace.declare.query.known_functions import KNOWN
from headrace.declare.sql import ViewText, convert_view, read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.dialect import SqlDialect
from headrace.model.types import Value
from headrace.testing import SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EMPTY = {name: ZSet.of(()) for name in SCHEMA}
SIGNS = ("+", "-", "*", "%", "&", "|", "^", "<<", ">>", ">>>")
WRITTEN = ("4 | 3 & 2", "4 ^ 3 & 2", "1 | 2 ^ 3", "1 + 2 || '3'", "1 | 2 = 3", "-2 & 3", "~1 & 3", "7 & 3 << 1")


def make_chains(signs: tuple[str, ...], count: int) -> list[str]:
    choices = random.Random(7)
    return [
        "".join(f"{choices.randint(1, 9)} {choices.choice(signs)} " for _ in range(choices.randint(2, 5))) + "3"
        for _ in range(count)
    ]


def value(expression: str, dialect: SqlDialect = SqlDialect.SPARK) -> Value:
    ((found,),) = evaluate(read_query(f"SELECT {expression} AS a", SCHEMA, dialect=dialect), EMPTY).rows()
    return found


def test_spark_reads_chains_of_operators_as_we_do(spark: SparkSession):
    chains = [*WRITTEN, *make_chains(SIGNS, 60)]
    (row,) = spark.sql(f"SELECT {', '.join(chains)}").collect()
    assert {chain: value(chain) for chain in chains} == dict(zip(chains, row, strict=True))


def test_chains_of_operators_of_postgresql_keep_their_order_in_sparks_words():
    for chain in [*make_chains(("+", "-", "*", "&", "|", "#", "<<", ">>"), 60), "name || k + 1", "'a' || 1 + 2 || 'b'"]:
        sql = f"SELECT {chain} AS a FROM r"
        texts = {"query": ViewText("query", sql, "q.sql", SqlDialect.POSTGRES)}
        converted = convert_view("query", texts, SCHEMA, {})
        assert read_query(converted, SCHEMA) == read_query(sql, SCHEMA, dialect=SqlDialect.POSTGRES)


@pytest.mark.parametrize("text", ["SELECT 16 >>>", "SELECT >>> 1", "SELECT 1 |", "SELECT 1 << FROM r"])
def test_signs_without_operands_are_mistakes(text: str):
    from headrace.model.errors import InputError

    with pytest.raises(InputError):
        read_query(text, SCHEMA)


def test_each_function_of_spark_is_known_by_name(spark: SparkSession):
    names = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {name for name in names if name.isidentifier()} - KNOWN == set()
