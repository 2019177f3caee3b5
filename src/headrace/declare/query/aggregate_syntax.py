"""How aggregates are written: the call itself, and the clauses around its name and inside its parentheses."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake

_AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


@dataclass(frozen=True, slots=True)
class WrittenAggregate:
    """`f(DISTINCT arguments ORDER BY order) FILTER (WHERE only_if)`, also with WITHIN GROUP (ORDER BY ...).

    `within` says that the order was written in WITHIN GROUP. `nulls` is whether NULLs are kept, None if not said.
    """

    function: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool
    order: tuple[exp.Expr, ...]
    within: bool
    only_if: exp.Expr | None
    nulls: bool | None


def called_function(node: exp.Expr) -> str | None:
    """The name of the function that a node calls, in lower case, without the clauses after its parentheses."""
    while isinstance(node, _AROUND):
        node = node.this
    if isinstance(node, exp.Any):
        return None if _is_comparison(node) else "any"
    return node.name.lower() if isinstance(node, exp.Anonymous) else None


def _is_comparison(node: exp.Any) -> bool:
    """`x = ANY (...)` compares."""
    is_right = isinstance(node.parent, exp.Binary) and node.parent.expression is node
    return is_right or isinstance(node.this.unnest(), exp.Query)


def read_written(node: exp.Expr) -> WrittenAggregate:
    """The parts of a call. Raises Mistake for those that do not go together."""
    only_if, within, nulls = None, None, None
    while isinstance(node, _AROUND):
        if isinstance(node, exp.Filter):
            only_if = node.expression.this
        elif isinstance(node, exp.WithinGroup):
            within = node.expression
        else:
            nulls = isinstance(node, exp.RespectNulls)
        node = node.this
    arguments = [node.this.unnest()] if isinstance(node, exp.Any) else list(node.expressions)
    order = None
    if arguments and isinstance(arguments[-1], exp.Order):
        order = arguments[-1]
        arguments[-1] = order.this
        if within is not None:
            raise Mistake("the order is written twice: in the parentheses and in WITHIN GROUP")
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        if arguments[0].args.get("on"):
            raise Mistake("DISTINCT is written once, before all arguments")
        arguments = [*arguments[0].expressions, *arguments[1:]]
    if any(isinstance(argument, exp.Distinct) for argument in arguments):
        raise Mistake("DISTINCT is written once, before all arguments")
    sorted_by = order if within is None else within
    return WrittenAggregate(
        called_function(node) or "",
        tuple(arguments),
        distinct,
        () if sorted_by is None else tuple(sorted_by.expressions),
        within is not None,
        only_if,
        nulls,
    )
