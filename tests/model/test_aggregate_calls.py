"""Calls of aggregates name their expressions in one order."""

from headrace.model.expr import Column, Expr
from headrace.model.relation import AggregateCall, AggregateFunction, Order
from headrace.model.types import INT, Array


def test_expressions_of_a_call_are_changed_in_the_order_in_which_it_names_them():
    argument, other, key = (Column(name, INT) for name in ("argument", "other", "key"))
    order = (Order(key, descending=True, nulls_first=False),)
    call = AggregateCall("a", AggregateFunction.ARRAY_AGG, argument, False, Array(INT), (other,), order)
    seen: list[Expr] = []

    def note(expr: Expr) -> Expr:
        seen.append(expr)
        return expr

    assert call.over(note) == call
    assert tuple(seen) == call.inputs == (argument, other, key)
