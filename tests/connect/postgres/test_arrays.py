"""What is written as an array is what PostgreSQL reads."""

from __future__ import annotations

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.connect.postgres.arrays import write_column
from tests.examples import examples

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
ODD_TEXTS = st.sampled_from(["", "NULL", "null", '"', "\\", '\\"', "{}", "a,b", " a ", "\n", "'", "%s"])


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(TEXTS | ODD_TEXTS),
    numbers=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)),
    truths=st.lists(st.none() | st.booleans()),
)
def test_postgres_reads_the_values_that_were_written(postgres_dsn, texts, numbers, truths):
    columns = (pa.chunked_array([texts], pa.string()), pa.chunked_array([numbers], pa.int64()))
    with psycopg.connect(postgres_dsn) as session:
        written = [write_column(column) for column in (*columns, pa.chunked_array([truths], pa.bool_()))]
        found = session.execute("SELECT %s::text[], %s::bigint[], %s::boolean[]", written).fetchone()
    assert found == (texts, numbers, truths)


def test_a_text_that_no_database_can_hold_is_refused():
    with pytest.raises(ValueError, match="NUL"):
        write_column(pa.chunked_array([["a", "b\0c"]], pa.string()))
