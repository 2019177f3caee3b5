"""Asking our reference and another engine the same question."""

from __future__ import annotations

import decimal
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, reject, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.model.errors import EvaluationError
from headrace.model.relation import Relation
from headrace.model.show import show
from headrace.model.types import Row, Type, Value
from headrace.testing import SCHEMA, Tables, queries, tables
from headrace.testing.engines import difference
from tests.examples import examples

_ANY = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate], suppress_health_check=list(HealthCheck))
"""Nothing is shrunk: that takes minutes when every try is a job, and the report shows the query and its rows."""
QUICK = settings(_ANY, max_examples=examples(40))
LONG = settings(_ANY, max_examples=600)


@dataclass(frozen=True, slots=True)
class Question:
    """A query and rows to ask it about."""

    sql: str
    tables: Tables

    def relation(self) -> Relation:
        return read_query(self.sql, SCHEMA)

    def answer(self) -> list[Row]:
        return list(evaluate(self.relation(), self.tables).rows())


def questions(*, portable: bool = False) -> st.SearchStrategy[Question]:
    return st.builds(Question, queries(portable=portable), tables(min_rows=3, max_rows=8))


def answer_or_reject(question: Question) -> list[Row]:
    """Our answer. Where we fail another engine may not, since it is free to compute what fails later or never."""
    try:
        return question.answer()
    except EvaluationError:
        reject()


def columns_of(source: str) -> dict[str, Type]:
    return {column.name: column.type for column in SCHEMA[source].columns or ()}


def report(question: Question, ours: list[Row], theirs: list[Row]) -> str | None:
    """None if the answers are the same, else all that one needs to see why not."""
    found = difference(ours, theirs)
    if found is None:
        return None
    rows = "\n".join(f"{name}: {list(table.rows())}" for name, table in question.tables.items())
    return f"{found}\n{question.sql}\n{show(question.relation())}\n{rows}"


def as_numbers(rows: list[Row]) -> list[Row]:
    """Exact numbers as floats: engines agree on the value of a sum or average but not on its type."""
    return [tuple(map(_as_number, row)) for row in rows]


def _as_number(value: Value) -> Value:
    return float(value) if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool) else value
