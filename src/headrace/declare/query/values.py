"""VALUES as the queries that it stands for: each row is a SELECT without FROM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from sqlglot import exp


def spread_values(tree: exp.Expr, stem: str = "col") -> exp.Expr:
    """The tree with every VALUES as the queries without FROM that it stands for, combined by UNION ALL.

    The stem begins the names of their columns: `col1` in Spark, `column1` in PostgreSQL.
    """
    for call in list(tree.find_all(exp.Anonymous)):
        # sqlglot knows EXISTS before SELECT and WITH alone.
        if call.name.lower() == "exists" and [type(part) for part in call.expressions] in ([exp.Values], [exp.Select]):
            call.replace(exp.Exists(this=call.expressions[0]))
    for node in list(tree.find_all(exp.Values)):
        query = reduce(_unite_queries, _rows_as_queries(node, stem))
        alias = node.args.get("alias")
        parent = node.parent
        if alias is not None or isinstance(parent, exp.From | exp.Join | exp.Lateral):
            new: exp.Expr = exp.Subquery(this=query, alias=alias, joins=node.args.get("joins"))
        elif isinstance(parent, exp.In):
            new = exp.Subquery(this=query)
            parent.set("expressions", None)
            parent.set("query", new)
            continue
        else:
            new = query
        if node is tree:
            tree = new
        else:
            node.replace(new)
    return tree


def _rows_as_queries(node: exp.Values, stem: str) -> Iterator[exp.Query]:
    for row in node.expressions:
        values = row.expressions if isinstance(row, exp.Tuple) else [row.unnest()]
        named = [exp.alias_(value, f"{stem}{place}") for place, value in enumerate(values, 1)]
        yield exp.Select(expressions=named)


def _unite_queries(left: exp.Query, right: exp.Query) -> exp.Query:
    return exp.Union(this=left, expression=right, distinct=False)
