"""What holds of every tree that reading gives: names are unique and found below, types agree, functions are allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.declare.query.ranking import UNLIMITED
from headrace.declare.query.trees import expressions_of, nodes
from headrace.meaning.functions import FUNCTIONS, PYTHON_PREFIX, is_allowed
from headrace.model.expr import Call, Column, Expr, walk
from headrace.model.relation import Filter, Join, Relation, TopK, UnionAll, fields_of, inputs_of
from headrace.model.types import BOOLEAN, INTERVALS, NULL, Type

SAME = ("=", "<>", "<", "<=", ">", ">=", "<=>", "in", "coalesce", "greatest", "least")


def flaws(relation: Relation) -> list[str]:
    """Everything that is wrong with a tree."""
    return [flaw for node in nodes(relation) for flaw in _of_node(node)]


def _of_node(node: Relation) -> Iterator[str]:
    fields = fields_of(node)
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        yield f"fields repeat: {names}"
    yield from (f"field {field.name} has type {field.type}" for field in fields if field.type in (NULL, *INTERVALS))
    below = {field.name: field.type for input_ in inputs_of(node) for field in fields_of(input_)}
    for expr in expressions_of(node):
        yield from (flaw for part in walk(expr) for flaw in _of_expression(part, below))
    if isinstance(node, Filter | Join):
        predicate = node.predicate if isinstance(node, Filter) else node.on
        if predicate.type != BOOLEAN:
            yield f"a condition of type {predicate.type}"
    if isinstance(node, TopK) and (node.limit == UNLIMITED or node.limit < 0 or node.offset < 0):
        yield f"top {node.limit} after {node.offset}"
    if isinstance(node, UnionAll):
        types = [[field.type for field in fields_of(input_)] for input_ in node.inputs]
        if any(row != types[0] for row in types):
            yield f"a union of {types}"


def _of_expression(expr: Expr, below: Mapping[str, Type]) -> Iterator[str]:
    if isinstance(expr, Column) and below.get(expr.name) != expr.type:
        yield f"column {expr.name} of type {expr.type} reads {below.get(expr.name)}"
    if not isinstance(expr, Call):
        return
    if not is_allowed(expr.function):
        yield f"function {expr.function} is not on the list"
    elif not expr.function.startswith(PYTHON_PREFIX) and not FUNCTIONS[expr.function].accepts(len(expr.arguments)):
        yield f"{expr} has {len(expr.arguments)} arguments"
    types = [argument.type for argument in expr.arguments]
    if expr.function in SAME and len(set(types)) != 1:
        yield f"{expr} mixes {types}"
    if expr.function in ("and", "or", "not") and set(types) != {BOOLEAN}:
        yield f"{expr} connects {types}"
    if expr.function == "case" and {*types[1::2], types[-1]} != {expr.type}:
        yield f"{expr} chooses from {types}"
