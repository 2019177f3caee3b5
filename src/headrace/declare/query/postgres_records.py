"""Rows of PostgreSQL's that are made elsewhere in other words: records of JSON, and lists of rows that a query in FROM
sorts.
"""

from __future__ import annotations

from sqlglot import exp

_SETS = frozenset(("json_to_recordset", "jsonb_to_recordset"))
_RECORDS = frozenset(("json_to_record", "jsonb_to_record"))
_LISTS = frozenset(("array_agg", "string_agg", "json_agg", "jsonb_agg"))


def spread_records(tree: exp.Expr) -> None:
    """`jsonb_to_recordset(x) AS r(a int)` is a query of the elements of x, with their members as columns."""
    for call in list(tree.find_all(exp.Anonymous)):
        item, name = call.parent, call.name.lower()
        if name not in _SETS | _RECORDS or not isinstance(item, exp.Table | exp.Lateral) or len(call.expressions) != 1:
            continue
        alias = item.args.get("alias")
        columns = alias.columns if isinstance(alias, exp.TableAlias) else []
        if (
            not isinstance(alias, exp.TableAlias)
            or not columns
            or not all(isinstance(column, exp.ColumnDef) for column in columns)
        ):
            continue
        whole = call.expressions[0]
        element = exp.Column(this=exp.to_identifier("element")) if name in _SETS else whole
        query = exp.Select(expressions=[_take_member(element, column) for column in columns])
        if name in _SETS:
            kind = name.partition("_")[0]
            rows = exp.Anonymous(this=f"{kind}_array_elements", expressions=[whole])
            names = exp.TableAlias(this=exp.to_identifier("elements"), columns=[exp.to_identifier("element")])
            query.set("from_", exp.From(this=exp.Table(this=rows, alias=names)))
        alias.set("columns", [])
        item.replace(exp.Lateral(this=exp.Subquery(this=query), alias=alias, view=False, outer=False))


def _take_member(element: exp.Expr, column: exp.ColumnDef) -> exp.Expr:
    kind, key = column.args["kind"], exp.Literal.string(column.name)
    is_json = isinstance(kind, exp.DataType) and kind.this in (exp.DType.JSON, exp.DType.JSONB)
    if is_json:
        value: exp.Expr = exp.JSONExtract(this=element.copy(), expression=key)
    else:
        value = exp.Cast(this=exp.JSONExtractScalar(this=element.copy(), expression=key), to=kind.copy())
    return exp.Alias(this=value, alias=column.this.copy())


def keep_order_of_lists(tree: exp.Expr) -> None:
    """Lists without an order of their own have that of the query in FROM, which PostgreSQL sorts first."""
    for call in tree.find_all(exp.Anonymous):
        arguments = call.expressions
        if call.name.lower() not in _LISTS or not arguments or isinstance(arguments[-1], exp.Order | exp.Distinct):
            continue
        if isinstance(arguments[0], exp.Distinct) or isinstance(call.parent, exp.Window):
            continue
        keys = _find_keys(call.find_ancestor(exp.Select))
        if keys:
            call.set("expressions", [*arguments[:-1], exp.Order(this=arguments[-1], expressions=keys)])


def _find_keys(select: exp.Select | None) -> list[exp.Expr]:
    """The keys by which the only item of FROM is sorted, if they are columns that it shows."""
    from_ = select.args.get("from_") if select is not None else None
    inner = from_.this if from_ is not None and not (select is not None and select.args.get("joins")) else None
    query = inner.this if isinstance(inner, exp.Subquery) else None
    order = query.args.get("order") if isinstance(query, exp.Select) else None
    if not isinstance(query, exp.Select) or order is None:
        return []
    shown = {item.alias_or_name for item in query.expressions}
    keys = [key.copy() for key in order.expressions]
    for key in keys:
        columns = list(key.find_all(exp.Column))
        named = all(column.name in shown or query.is_star for column in columns)
        if not columns or not named or key.find(exp.Query, exp.Window, exp.AggFunc):
            return []
        for column in columns:
            column.set("table", None)
    return keys
