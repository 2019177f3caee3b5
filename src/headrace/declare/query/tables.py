"""One item of FROM: a source, a view, a common table expression or a query in parentheses, under a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.declare.query.environment import BrokenView, Environment, FromClause, NamedQuery, Purpose, Rows
from headrace.declare.query.pivots import write_pivots
from headrace.declare.query.report import refuse
from headrace.declare.query.scope import FromTable, Scope, Visible, fold, same_name
from headrace.declare.query.spelling import refuse_clause
from headrace.declare.query.stage import QueryStage
from headrace.declare.query.window_tables import read_window_table
from headrace.declare.query.window_text import find_window_table
from headrace.model.catalogue import PostgresTable, Source, SourceColumn, SourceKind
from headrace.model.errors import nearest_name
from headrace.model.expr import Column
from headrace.model.relation import Scan

PUBLIC = "public"
"""The schema in which PostgreSQL looks for tables that are named without one."""

_OTHER_ITEMS: Mapping[type[exp.Expr], str] = {
    exp.Unnest: "table function: unnest",
}


def refuse_clauses(node: exp.Expr, environment: Environment, *handled: str) -> None:
    """Refuse whatever is written in a node beyond what its reader handles: nothing is ignored silently."""
    for key, value in node.args.items():
        if value and key not in handled:
            inner = value[0] if isinstance(value, list) else value
            where = environment.at(inner if isinstance(inner, exp.Expr) else node)
            is_unpivot = isinstance(inner, exp.Pivot) and inner.args.get("unpivot")
            refused = refuse_clause("unpivot" if is_unpivot else key)
            environment.report.refuse(refused.operator, where, refused.hint)


def read_item(node: exp.Expr, environment: Environment, outer: QueryStage | None) -> FromClause:
    """What one item of FROM shows, without the joins that may follow it."""
    with environment.report.gathering():
        return _read_item(node, environment, outer)
    alias = node.alias_or_name
    return FromClause(_nothing_known(alias, environment).relation, Scope((FromTable(alias, (), complete=False),)))


def _read_item(node: exp.Expr, environment: Environment, outer: QueryStage | None) -> FromClause:
    if node.args.get("pivots"):
        return _read_item(
            write_pivots(node, environment, lambda item: _read_item(item, environment, outer)), environment, outer
        )
    if isinstance(node, exp.Table):
        return _read_named(node, environment, outer)
    if not isinstance(node, exp.Subquery) or not isinstance(node.this, exp.Query):
        refuse(_OTHER_ITEMS.get(type(node), f"clause: {type(node).__name__.lower()}"), environment.at(node))
    return _query(node, environment, outer)


def _read_named(node: exp.Table, environment: Environment, outer: QueryStage | None) -> FromClause:
    call = find_window_table(node)
    if call is not None:
        refuse_clauses(node, environment, "this", "alias", "joins")
        rows, alias = read_window_table(node, call, environment, outer, read_item)
        return show_rows(rows, name_item(node, alias, environment), node, environment)
    if not isinstance(node.this, exp.Identifier):
        refuse(f"table function: {name_table_function(node)}", environment.at(node))
    refuse_clauses(node, environment, "this", "alias", "db", "joins")
    name = _find_name(node, environment)
    alias = name_item(node, node.name.rpartition(".")[2], environment)
    common = None if node.db else environment.common_tables.get(fold(name))
    if common is not None:
        environment.books.used_queries.add(id(common.query))
        return show_rows(_expand_query(common, alias, environment), alias, node, environment)
    source = environment.declared.source(name)
    if source is not None:
        _remember(source.name, environment)
        return show_rows(_rows_of(source, alias, node, environment), alias, node, environment)
    return _read_view(name, alias, node, environment)


def _find_name(node: exp.Table, environment: Environment) -> str:
    """The name of a table with its schema, which is left out where `public` is that of the tables without one."""
    if not node.db:
        return str(node.name)
    name, declared = f"{node.db}.{node.name}", environment.declared
    source = declared.source(node.name)
    is_view = any(same_name(view, node.name) for view in declared.view_names)
    is_known = declared.source(name) is not None or any(same_name(view, name) for view in declared.view_names)
    if is_known or fold(node.db) != PUBLIC or not (is_view or (source is not None and _may_be_public(source))):
        return name
    node.set("db", None)
    return str(node.name)


def _may_be_public(source: Source) -> bool:
    """Whether a source is a table of the schema `public`, or does not say of which."""
    table = source.origin.table if isinstance(source.origin, PostgresTable) else source.name
    return "." not in table or fold(table.partition(".")[0].strip('"')) == PUBLIC


def name_table_function(node: exp.Table) -> str:
    """`ROWS FROM (...)` holds several functions, and has no name of its own."""
    return "rows from" if node.this is None else str(node.this.name).lower()


def name_function(node: exp.Expr) -> str:
    """The name of a function in FROM, for messages."""
    inner = node.this if isinstance(node, exp.Lateral) else node
    return name_table_function(inner) if isinstance(inner, exp.Table) else str(getattr(inner, "name", "")).lower()


def _read_view(name: str, alias: str, node: exp.Table, environment: Environment) -> FromClause:
    view = environment.declared.view(name, environment, environment.at(node))
    if view is None:
        near = nearest_name(name, (*environment.declared.table_names(), *environment.common_tables))
        environment.error(f'table "{name}" does not exist', node, near or "tables are the project's sources and views")
        return show_rows(_nothing_known(alias, environment), alias, node, environment)
    _remember(next(known for known in environment.declared.view_names if same_name(known, name)), environment)
    if isinstance(view, BrokenView):
        environment.report.blocked = True
        return show_rows(_nothing_known(alias, environment), alias, node, environment)
    return show_rows(_expand_query(view, alias, environment), alias, node, environment)


def _remember(name: str, environment: Environment) -> None:
    if name not in environment.reads:
        environment.reads.append(name)


def _expand_query(named: NamedQuery, alias: str, environment: Environment) -> Rows:
    """The rows of a view or common table expression, read again for this use."""
    inner = replace(named.environment, path=environment.path).inside(alias)
    rows = inner.read_query(named.query, inner, named.outer, Purpose.TABLE)
    if not named.column_names or len(named.column_names) != len(rows.columns):
        return rows
    columns = zip(named.column_names, rows.columns, strict=True)
    return replace(rows, columns=tuple(replace(column, name=name) for name, column in columns))


def _query(node: exp.Subquery, environment: Environment, outer: QueryStage | None) -> FromClause:
    refuse_clauses(node, environment, "this", "alias", "joins")
    alias = name_item(node, environment.books.fresh("subquery"), environment)
    inner = environment.inside(alias)
    return show_rows(environment.read_query(node.this, inner, outer, Purpose.TABLE), alias, node, environment)


def name_item(node: exp.Expr, otherwise: str, environment: Environment) -> str:
    """The name that the query gives to the item. `.` and `/` separate the parts of our own names."""
    alias: str = node.alias or otherwise
    if "." in alias or "/" in alias:
        environment.error(f'the name "{alias}" contains "." or "/"', node, "give it another name with AS")
        return alias.replace(".", "_").replace("/", "_")
    return alias


def _rows_of(source: Source, alias: str, node: exp.Expr, environment: Environment) -> Rows:
    if source.columns is None:
        hint = "declare them with `columns:`, or read them from the database with --connect"
        environment.error(f'the columns of source "{source.name}" are not known', node, hint)
        return _nothing_known(alias, environment)
    stem = f"{environment.path}{alias}"
    return scan(source, source.columns, environment.books.scan(stem, environment.at(node)))


def find_key(node: Scan, environment: Environment) -> frozenset[str]:
    """The fields of a table's key; none of a stream, or of a table without one."""
    source = environment.declared.source(node.source)
    key = () if source is None or source.kind != SourceKind.TABLE else source.key
    return frozenset(f"{node.alias}.{column}" for column in key)


def scan(source: Source, columns: Sequence[SourceColumn], alias: str) -> Rows:
    """All rows of a source. Its key is never NULL."""
    names = tuple(column.name for column in columns)
    visible = tuple(
        Visible(column.name, Column(f"{alias}.{column.name}", column.type), column.origin_type) for column in columns
    )
    keys = frozenset(f"{alias}.{name}" for name in names if any(same_name(name, key) for key in source.key))
    relation = Scan(source.name, alias, names, tuple(column.type for column in columns))
    return Rows(relation, visible, keys, left_out=source.left_out)


def _nothing_known(alias: str, environment: Environment) -> Rows:
    """Stands for rows that cannot be read because of a mistake."""
    return Rows(Scan(alias, environment.books.fresh(f"{environment.path}{alias}"), (), ()), (), complete=False)


def show_rows(rows: Rows, alias: str, node: exp.Expr, environment: Environment) -> FromClause:
    """Rows as a table of FROM, with the column names that the alias may give: `t AS x(a, b)`."""
    table = rows.as_table(alias)
    given = node.args["alias"].columns if node.args.get("alias") else []
    if given and len(given) != len(table.columns) and table.complete:
        environment.error(f'"{alias}" has {len(table.columns)} columns, not {len(given)}', given[0])
        table = replace(table, complete=False)
    elif given:
        columns = zip(given, table.columns, strict=False)
        table = replace(table, columns=tuple(replace(column, name=name.name) for name, column in columns))
    return FromClause(rows.relation, Scope((table,)), rows.not_null, rows.correlated)
