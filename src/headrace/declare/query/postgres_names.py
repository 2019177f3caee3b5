"""What PostgreSQL calls a column that nobody has named: `count(*)` is `count`, `now()::date` is `now`.

Queries around it and people who read the view use these names. PostgreSQL calls all others `?column?`, which can hardly
be written: they get a name from their text, as in Spark's dialect.
"""

from __future__ import annotations

from sqlglot import exp

WORDS: dict[type[exp.Expr], str] = {
    exp.Extract: "extract",
    exp.StrPosition: "position",
    exp.Substring: "substring",
    exp.Overlay: "overlay",
    exp.AtTimeZone: "timezone",
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp",
    exp.Localtime: "localtime",
    exp.Localtimestamp: "localtimestamp",
    exp.CurrentUser: "current_user",
    exp.Exists: "exists",
    exp.Array: "array",
}
TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}
AROUND = (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls, exp.Collate, exp.Bracket)
"""What is named like the expression inside it."""
TYPES = {
    exp.DType.SMALLINT: "int2",
    exp.DType.INT: "int4",
    exp.DType.BIGINT: "int8",
    exp.DType.FLOAT: "float4",
    exp.DType.DOUBLE: "float8",
    exp.DType.DECIMAL: "numeric",
    exp.DType.BOOLEAN: "bool",
    exp.DType.CHAR: "bpchar",
}


def find_postgres_name(node: exp.Expr) -> str | None:
    """The name that PostgreSQL gives a column; None for `?column?`."""
    name, _ = _find(node)
    return name


def _find(node: exp.Expr) -> tuple[str | None, bool]:
    """A name, and whether it is of the value itself: a cast or a CASE has one only where its value has none."""
    node = node.unnest()
    match node:
        case exp.Column():
            return node.name, True
        case exp.Dot():
            return _find(node.expression)
        case exp.Identifier() | exp.Anonymous():
            return node.name.lower(), True
        case exp.Trim():
            return TRIMS.get(str(node.args.get("position")), "btrim"), True
        case exp.Cast():
            return _find_over(node.this, _name_type(node.args["to"]))
        case exp.Interval():
            return "interval", False
        case exp.Case():
            return _find_over(node.args.get("default"), "case")
        case exp.Query():
            return _find_only_column(node)
    if isinstance(node, AROUND):
        return _find(node.this)
    name = WORDS.get(type(node))
    return name, name is not None


def _find_over(value: exp.Expr | None, otherwise: str) -> tuple[str, bool]:
    name, is_own = (None, False) if value is None else _find(value)
    return (name, True) if name is not None and is_own else (otherwise, False)


def _find_only_column(query: exp.Query) -> tuple[str | None, bool]:
    """A subquery as a value is named like its column."""
    if len(query.selects) != 1:
        return None, False
    (item,) = query.selects
    return (item.alias, True) if isinstance(item, exp.Alias) else _find(item)


def _name_type(type_: exp.DataType) -> str:
    kind = type_.this
    return TYPES.get(kind, kind.value.lower()) if isinstance(kind, exp.DType) else str(type_.sql()).lower()
