"""`count(t.*)` of PostgreSQL: rows of a table that are there."""

from __future__ import annotations

from sqlglot import exp

from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.postgres_rows import find_row, may_be_lacking
from headrace.declare.query.scope import same_name
from headrace.declare.query.stage import QueryStage
from headrace.declare.query.tables import find_key
from headrace.model.relation import scans_of


def count_rows(argument: exp.Expr, stage: QueryStage) -> exp.Expr:
    """What `count(t.*)` and `count(t)` count: rows, or the key of a table whose rows an outer join may lack."""
    table = find_row(argument, stage)
    if table is None:
        return argument
    if not may_be_lacking(argument):
        return exp.Star()
    scans = (scan for scan in scans_of(stage.relation) if same_name(scan.alias.rpartition("/")[2], table.alias))
    keys = sorted(key for scan in scans for key in find_key(scan, stage.environment))
    if not keys:
        hint = f"count a column that is never NULL: count({table.alias}.id)"
        raise NotMaintained("aggregate: count of rows that an outer join may lack", hint)
    name, owner = (exp.to_identifier(text, quoted=True) for text in (keys[0].rpartition(".")[2], table.alias))
    return exp.Column(this=name, table=owner)
