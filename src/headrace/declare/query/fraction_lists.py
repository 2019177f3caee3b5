"""Percentiles at several fractions, in Spark's words: `percentile(x, array(0.5, 0.9))` is an array of one for each."""

from __future__ import annotations

from sqlglot import exp

_WITH_FRACTIONS = ("approx_percentile", "percentile", "percentile_approx")


def spread_fraction_lists(tree: exp.Query) -> exp.Query:
    """The query with one percentile for each fraction; NULL where there are no rows, as before."""
    for call in list(tree.find_all(exp.Anonymous)):
        fractions = _find_fractions(call)
        if not fractions:
            continue
        whole: exp.Expr = call
        while isinstance(whole.parent, exp.Filter | exp.Window) and whole.parent.this is whole:
            whole = whole.parent
        stand_in = exp.Null()
        whole.replace(stand_in)
        found = [_take_fraction(whole, one) for one in fractions]
        has_rows = exp.Not(this=exp.Is(this=found[0].copy(), expression=exp.Null()))
        listed = exp.Anonymous(this="array", expressions=found)
        made: exp.Expr = exp.Case(ifs=[exp.If(this=has_rows, true=listed)])
        if isinstance(stand_in.parent, exp.Select):
            made = exp.alias_(made, call.name.lower(), quoted=True)
        stand_in.replace(made)
    return tree


def _find_fractions(call: exp.Anonymous) -> list[exp.Expr]:
    if call.name.lower() not in _WITH_FRACTIONS or len(call.expressions) < 2:
        return []
    listed = call.expressions[1].unnest()
    is_list = isinstance(listed, exp.Anonymous) and listed.name.lower() == "array"
    return list(listed.expressions) if is_list else []


def _take_fraction(whole: exp.Expr, fraction: exp.Expr) -> exp.Expr:
    made = whole.copy()
    call = next(inner for inner in made.find_all(exp.Anonymous) if _find_fractions(inner))
    call.set("expressions", [call.expressions[0], fraction.copy(), *call.expressions[2:]])
    return made
