"""Windows of GROUP BY as Flink and Calcite write them: `GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)`, `TUMBLE_START(...)`.

They become `window(ts, size)` and `window.start`, before a query is read.
"""

from __future__ import annotations

from sqlglot import exp

_WINDOWS = {"tumble": "window", "hop": "window", "session": "session_window"}
_BOUNDS = {f"{name}_{bound}": (window, bound) for name, window in _WINDOWS.items() for bound in ("start", "end")}


def write_group_windows(tree: exp.Expr) -> exp.Expr:
    """The tree with such windows in the words of Spark's."""
    for group in list(tree.find_all(exp.Group)):
        calls = [key.unnest() for key in group.expressions]
        windows = [call for call in calls if isinstance(call, exp.Anonymous) and call.name.lower() in _WINDOWS]
        if windows:
            _write_bounds(group.parent)
        for call in windows:
            _rename(call)
    return tree


def _rename(call: exp.Anonymous) -> None:
    name = call.name.lower()
    call.set("expressions", [call.expressions[0], *map(_as_text, call.expressions[1:])])
    if name == "hop" and len(call.expressions) == 3:
        time, slide, size = call.expressions
        call.set("expressions", [time, size, slide])
    call.set("this", _WINDOWS[name])


def _write_bounds(select: exp.Expr | None) -> None:
    for call in list(select.find_all(exp.Anonymous)) if select is not None else ():
        bound = _BOUNDS.get(call.name.lower())
        if bound is not None and call.find_ancestor(exp.Select) is select:
            column = exp.Column(this=exp.to_identifier(bound[1]), table=exp.to_identifier(bound[0]))
            column.meta.update(call.meta)
            call.replace(column)


def _as_text(length: exp.Expr) -> exp.Expr:
    """A length as text, which is how Spark's windows take it."""
    unit = length.args.get("unit") if isinstance(length, exp.Interval) else None
    is_plain = isinstance(length, exp.Interval) and isinstance(length.this, exp.Literal) and isinstance(unit, exp.Var)
    return exp.Literal.string(f"{length.this.name} {unit.name}") if is_plain and unit is not None else length
