"""Constants beside values of a type of PostgreSQL that we hold as text: they are read as values of that type.

`id = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'` finds a uuid, whose text has small letters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake
from headrace.declare.query.postgres_nodes import TypeOf
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.meaning.scalar_postgres import read_uuid
from headrace.model.errors import EvaluationError
from headrace.model.origin_types import ColumnOrigin, OriginType

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)

_READ: Mapping[ColumnOrigin, Callable[[str], str]] = {OriginType.UUID: read_uuid}


def read_constants(node: exp.Expr, type_of: TypeOf) -> None:
    """Writes the constants of a comparison as the type beside them is written. Doing so again changes nothing."""
    parts = _find_parts(node)
    constants = [one.unnest() for one in parts if isinstance(one.unnest(), exp.Literal) and one.unnest().is_string]
    if not constants or len(constants) == len(parts):
        return
    types = {find_origin_type(one, type_of) for one in parts if not isinstance(one.unnest(), exp.Literal)}
    read = _READ.get(types.pop() or OriginType.TEXT) if len(types) == 1 else None
    if read is None:
        return
    for constant in constants:
        try:
            constant.set("this", read(constant.name))
        except EvaluationError as error:
            raise Mistake(str(error)) from None


def _find_parts(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, _COMPARISONS):
        return [node.this, node.expression]
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    return [node.this, *node.expressions] if isinstance(node, exp.In) else []
