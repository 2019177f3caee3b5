"""What a derivation makes from batch to batch is, at every time, what it means over everything."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from headrace.meaning.derive_keys import keys_of
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.block import Derivation, DerivationKind
from headrace.model.errors import EvaluationError
from headrace.model.expr import TRUE, Call, Column, Expr, Literal, conjunction
from headrace.model.relation import (
    Distinct,
    Field,
    Join,
    JoinKind,
    Output,
    Projection,
    Relation,
    Scan,
    UnionAll,
    fields_of,
)
from headrace.model.types import BOOLEAN
from headrace.run.operators.derive import derive
from headrace.run.program import DerivedInput, DeriveStep, LogReading
from headrace.run.rows.changes import STAMPS
from headrace.testing import SCHEMA
from headrace.testing.expressions import ScalarMaker
from headrace.testing.tables import COLUMN_TYPES
from tests.run.operators.histories import History, Stored, at_time, histories

JOINS = ("left", "right", "full", "semi", "anti")


def scan(source: str) -> Scan:
    columns = SCHEMA[source].columns or ()
    return Scan(source, source, tuple(c.name for c in columns), tuple(c.type for c in columns))


R, S = scan("r"), scan("s")


@dataclass(frozen=True)
class Case:
    """A derivation, and the relation that says what it means; `sources` are its inputs."""

    derivation: Derivation
    relation: Relation
    sources: tuple[str, ...]

    def step(self) -> DeriveStep:
        fields = tuple(fields_of(scan(source)) for source in self.sources)
        inputs = tuple(
            DerivedInput(LogReading(source, {}), None, side) for source, side in zip(self.sources, fields, strict=True)
        )
        outputs = tuple(Output(f.name, Column(f.name, f.type)) for f in fields_of(self.relation))
        return DeriveStep(inputs, self.derivation, keys_of(self.derivation, fields), outputs)


@st.composite
def distincts(draw: st.DrawFn) -> Case:
    columns = draw(projections())
    return Case(Derivation(DerivationKind.DISTINCT, (columns,)), Distinct(Projection(R, columns)), ("r",))


@st.composite
def projections(draw: st.DrawFn) -> tuple[Output, ...]:
    scalars = ScalarMaker(draw, fields_of(R))
    types = draw(st.lists(st.sampled_from(COLUMN_TYPES), min_size=1, max_size=3))
    return tuple(Output(f"c{i}", scalars.make(type_, 1)) for i, type_ in enumerate(types))


def equal(function: str, left: str, right: str) -> Expr:
    types = {f.name: f.type for f in (*fields_of(R), *fields_of(S))}
    return Call(function, (Column(left, types[left]), Column(right, types[right])), BOOLEAN)


@st.composite
def joins(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(JOINS))
    anything = ScalarMaker(draw, fields_of(R) + fields_of(S)).make(BOOLEAN, 1)
    same = equal("=", "r.k", "s.k")
    on = draw(
        st.sampled_from(
            (
                same,
                same,
                equal("<=>", "r.k", "s.k"),
                conjunction((same, equal("<=>", "s.label", "r.name"))),
                conjunction((same, equal("<", "r.n", "s.n"))),
                Call("not", (Call("<=>", (same, Literal(False, BOOLEAN)), BOOLEAN),), BOOLEAN),
                anything,
                TRUE,
            )
        )
    )
    return Case(Derivation(DerivationKind(kind), on=on), Join(JoinKind(kind), R, S, on), ("r", "s"))


@st.composite
def unions(draw: st.DrawFn) -> Case:
    columns = draw(projections())
    scalars = ScalarMaker(draw, fields_of(S))
    others = tuple(Output(column.name, scalars.make(column.expr.type, 1)) for column in columns)
    united = UnionAll((Projection(R, columns), Projection(S, others)))
    return Case(Derivation(DerivationKind.UNION_ALL, (columns, others)), united, ("r", "s"))


def check(case: Case, history: History) -> None:
    try:
        tables = [history.tables(source) for source in case.sources]
        answers = [
            evaluate(case.relation, dict(zip(case.sources, now, strict=True))) for now in zip(*tables, strict=True)
        ]
        first = evaluate(case.relation, {source: ZSet() for source in case.sources})
        step, log = case.step(), []
        for after, upto in history.batches():
            changes = tuple(history.changes(i.changes.log, i.fields, after, upto) for i in step.inputs)
            # Rows that are later than the batch are there already when another vertex reads them sooner.
            stored = tuple(
                Stored(history.changes(s, fields_of(scan(s)), 0, len(history.steps)), key)
                for s, key in zip(case.sources, step.keys, strict=True)
            )
            log.append(derive(step, changes, stored, after))
            assert log[-1].column_names == [*(output.name for output in step.outputs), *STAMPS]
    except EvaluationError:
        reject()
    was = first
    for time, answer in enumerate(answers):
        assert at_time(log, time) == answer - was
        was = answer


@given(distincts(), histories(("r",)))
def test_distinct_rows_come_and_go_with_their_first_and_last_copy(case: Case, history: History):
    check(case, history)


@given(joins(), histories(("r", "s")))
def test_outer_semi_and_anti_joins_are_at_every_time_those_of_the_whole_tables(case: Case, history: History):
    check(case, history)


@given(unions(), histories(("r", "s")))
def test_unions_pass_on_what_changes(case: Case, history: History):
    check(case, history)


def test_keys_of_a_join_are_its_equalities_and_the_rest_decides_nothing():
    on = conjunction((equal("<", "r.n", "s.n"), equal("=", "s.k", "r.k")))
    left, right = fields_of(R), fields_of(S)
    assert keys_of(Derivation(DerivationKind.ANTI, on=on), (left, right)) == (
        (Column("r.k", left[1].type),),
        (Column("s.k", right[0].type),),
    )


@pytest.mark.parametrize("kind", [DerivationKind.LEFT, DerivationKind.UNION_ALL])
def test_without_equalities_everything_concerns_everything(kind: DerivationKind):
    fields: tuple[tuple[Field, ...], ...] = (fields_of(R), fields_of(S))
    assert keys_of(Derivation(kind), fields) == ((), ())
