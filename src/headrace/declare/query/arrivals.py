"""Windows of the time at which rows of a stream came: `window(now(), '10 seconds')`, as engines of streams have it.

A row does not tell when it was processed, and a view that is computed anew must come to the same rows. So the time is
the one at which the row was captured, which is noted once (`relation.Stamped`). Only rows of a stream stay for ever, so
only they have one such time.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.declare.query.calls import NOW
from headrace.declare.query.environment import Environment
from headrace.model.catalogue import SourceKind
from headrace.model.expr import Column
from headrace.model.relation import (
    Filter,
    Output,
    Projection,
    Relation,
    Scan,
    Sessions,
    Stamped,
    Windows,
    fields_of,
)
from headrace.model.types import TIMESTAMP


def window_by_arrival(relation: Relation, environment: Environment) -> Relation:
    """Windows over the current time as windows over the times at which rows came, if these are a stream's."""
    if not isinstance(relation, Windows | Sessions) or relation.time != NOW:
        return relation
    name = environment.books.fresh("came")
    rows = _note_arrival(relation.input, name, environment)
    if rows is None:
        return relation
    kept = (Output(field.name, Column(field.name, field.type)) for field in fields_of(relation))
    return Projection(replace(relation, input=rows, time=Column(name, TIMESTAMP)), tuple(kept))


def _note_arrival(relation: Relation, name: str, environment: Environment) -> Relation | None:
    """Rows of a stream with the time at which each came as one more field; None for others."""
    match relation:
        case Scan(source):
            known = environment.declared.sources.get(source)
            is_stream = known is not None and known.kind is SourceKind.STREAM
            return Stamped(relation, name, from_beginning=False) if is_stream else None
        case Filter(input_):
            rows = _note_arrival(input_, name, environment)
            return None if rows is None else replace(relation, input=rows)
        case Projection(input_, outputs):
            rows = _note_arrival(input_, name, environment)
            came = Output(name, Column(name, TIMESTAMP))
            return None if rows is None else Projection(rows, (*outputs, came))
    return None
