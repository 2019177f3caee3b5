"""Forms that DuckDB, Materialize, RisingWave and others have who speak PostgreSQL's dialect, in its own words."""

from __future__ import annotations

from sqlglot import exp

_QUANTILES = {
    "approx_quantile": "percentile_cont",
    "quantile": "percentile_disc",
    "quantile_cont": "percentile_cont",
    "quantile_disc": "percentile_disc",
}
_CASTS = {
    "bool": "boolean",
    "float8": "double precision",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
}
"""Types by whose names PostgreSQL's own values are cast, too: `float8(count(*))`."""


def write_kin(tree: exp.Expr) -> None:
    """Writes quantiles with WITHIN GROUP, and casts that are called as CAST."""
    for call in list(tree.find_all(exp.Anonymous)):
        name, arguments = call.name.lower(), call.expressions
        if name in _QUANTILES and len(arguments) == 2:
            _sort_within(call, _QUANTILES[name])
        elif name == "approx_percentile" and isinstance(call.parent, exp.WithinGroup):
            call.set("this", "percentile_disc")
            call.set("expressions", arguments[:1])  # what follows is how exact it has to be
        elif name in _CASTS and len(arguments) == 1:
            made = exp.Cast(this=arguments[0], to=exp.DataType.build(_CASTS[name], dialect="postgres"))
            call.replace(made)


def _sort_within(call: exp.Anonymous, name: str) -> None:
    """`quantile_cont(x, 0.5)` is `percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`."""
    value, fraction = call.expressions
    stand_in = exp.Null()
    call.replace(stand_in)
    call.set("this", name)
    call.set("expressions", [fraction])
    order = exp.Order(expressions=[exp.Ordered(this=value, nulls_first=False)])
    stand_in.replace(exp.WithinGroup(this=call, expression=order))
