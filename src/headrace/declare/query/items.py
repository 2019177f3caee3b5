"""The SELECT list: `*` expanded, every column with a name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from headrace.declare.query.environment import Environment
from headrace.declare.query.expressions import check_expression, read_value
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_names import find_postgres_name
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.declare.query.scope import Visible, fold
from headrace.declare.query.stage import PlacedMistakes, QueryStage
from headrace.model.dialect import SqlDialect
from headrace.model.errors import nearest_name
from headrace.model.expr import Column, Expr
from headrace.model.origin_types import ColumnOrigin
from headrace.model.relation import Output
from headrace.model.types import INTERVALS, NULL

LONGEST_NAME = 60
INTERVAL_IN_POSTGRES = (
    "give the number of seconds or days: extract(epoch FROM later - earlier), later::date - earlier::date"
)


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One column of the result, and the node it was written as. `origin_type` is PostgreSQL's, if known."""

    name: str
    value: Expr
    node: exp.Expr
    origin_type: ColumnOrigin | None = None

    @property
    def visible(self) -> Visible:
        """The column as a query around it sees it."""
        return Visible(self.name, self.value, self.origin_type)


def read_items(nodes: Sequence[exp.Expr], stage: QueryStage, *, named: bool) -> tuple[SelectItem, ...]:
    """The columns of a SELECT list. An alias is known to the items after it. Without `named`, names do not matter."""
    items: list[SelectItem] = []
    for node in nodes:
        with PlacedMistakes(stage, node):
            for item in _read_item(node, stage, named, items):
                items.append(item)
                if isinstance(node, exp.Alias):
                    stage.aliases = {**stage.aliases, fold(item.name): item.value}
                    stage.alias_types = {**stage.alias_types, fold(item.name): item.origin_type}
    return tuple(items)


def _read_item(node: exp.Expr, stage: QueryStage, named: bool, before: list[SelectItem]) -> Iterator[SelectItem]:
    if isinstance(node, exp.Star):
        yield from _expand_star(node, tuple(stage.scope.all()), node, stage)
    elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        yield from _expand_star(node.this, _table(node, stage), node, stage)
    elif isinstance(node, exp.Alias):
        if not isinstance(node.args["alias"], exp.Identifier):
            raise Mistake("an alias is a name")
        yield SelectItem(node.alias, read_value(node.this, stage), node, _find_origin_type(node.this, stage))
    elif isinstance(node, exp.Aliases):
        raise NotMaintained("clause: several aliases")
    else:
        # Before the value is read: what is written in PostgreSQL's dialect is rewritten then.
        name = _own_name(node, stage, named, before)
        yield SelectItem(name, read_value(node, stage), node, _find_origin_type(node, stage))


def _table(node: exp.Column, stage: QueryStage) -> tuple[Visible, ...]:
    table = stage.scope.table(node.table)
    if table is None:
        near = nearest_name(node.table, [table.alias for table in stage.scope.tables])
        raise Mistake(f'table "{node.table}" is not in FROM', near)
    return stage.scope.all_of(table)


def _expand_star(
    star: exp.Star, columns: tuple[Visible, ...], node: exp.Expr, stage: QueryStage
) -> Iterator[SelectItem]:
    if star.args.get("ilike"):
        raise NotMaintained("clause: * with ilike")
    replaced = {fold(part.alias): part for part in star.args.get("replace") or ()}
    renamed = {fold(part.this.name): str(part.alias) for part in star.args.get("rename") or ()}
    left_out = {fold(column.name): column for column in star.args.get("except_") or ()}
    for name, column in left_out.items():
        plain = isinstance(column, exp.Identifier) or (isinstance(column, exp.Column) and not column.table)
        known = plain and name in {fold(visible.name) for visible in columns}
        if not known and stage.scope.complete:
            near = nearest_name(column.name, [visible.name for visible in columns])
            stage.environment.error(f'column "{column.name}" does not exist', column, near)
    for name in (*replaced, *renamed):
        if stage.scope.complete and name not in {fold(visible.name) for visible in columns}:
            near = nearest_name(name, [visible.name for visible in columns])
            stage.environment.error(f'column "{name}" does not exist', node, near)
    for visible in columns:
        name = fold(visible.name)
        if name in replaced:
            written = replaced[name].this
            yield SelectItem(visible.name, read_value(written, stage), node, _find_origin_type(written, stage))
        elif name not in left_out:
            value = check_expression(node, stage, partial(stage.finished, visible.value))
            yield SelectItem(renamed.get(name, visible.name), value, node, visible.origin_type)


def _find_origin_type(node: exp.Expr, stage: QueryStage) -> ColumnOrigin | None:
    """What an item is to PostgreSQL. Words of Spark's mean something else: there, columns alone keep what they are."""
    is_read = stage.environment.text.dialect is SqlDialect.POSTGRES or isinstance(node.unnest(), exp.Column)
    return find_origin_type(node) if is_read else None


def _own_name(node: exp.Expr, stage: QueryStage, named: bool, before: list[SelectItem]) -> str:
    """A column keeps the name of its declaration; an expression gets one from its text."""
    inner = node.unnest()
    if isinstance(inner, exp.Column):
        declared = (column.name for column in stage.scope.all() if fold(column.name) == fold(inner.name))
        return next(declared, inner.name)
    if isinstance(inner, exp.Dot):
        return str(inner.expression.name)
    text, taken = stage.environment.text, [item.name for item in before]
    known = find_postgres_name(node) if text.dialect is SqlDialect.POSTGRES else None
    if known is not None and fold(known) not in map(fold, taken):
        return known
    name = name_from_text(text.written(inner), taken)
    if named:
        hint = f"{text.written(inner)} AS ..."
        stage.environment.report.note(f'a column without a name is called "{name}"', stage.environment.at(inner), hint)
    return name


def name_from_text(text: str, taken: Sequence[str]) -> str:
    """`sum(o.total)` is `sum_o_total`, and a second one `sum_o_total_2`."""
    stem = re.sub(r"\W+", "_", text.lower()).strip("_")[:LONGEST_NAME].rstrip("_") or "column"
    stem = f"_{stem}" if stem[0].isdigit() else stem
    name, number = stem, 1
    while fold(name) in map(fold, taken):
        number += 1
        name = f"{stem}_{number}"
    return name


def number_names(names: Sequence[str]) -> list[str]:
    """Names for a table, which tells its columns apart: the second `id` is `id_2`, unless another column is that."""
    left, taken, found = [fold(name) for name in names], set[str](), list[str]()
    for name in names:
        left.remove(fold(name))
        chosen, number = name, 1
        while fold(chosen) in taken or (number > 1 and fold(chosen) in left):
            number += 1
            chosen = f"{name}_{number}"
        taken.add(fold(chosen))
        found.append(chosen)
    return found


def outputs(items: Sequence[SelectItem], environment: Environment) -> tuple[Output, ...]:
    """The items as fields of rows of their own: names become unique, types are such that a column may have."""
    taken: set[str] = set()
    made = []
    for item in items:
        _check_type(item, environment)
        name, number = f"{environment.output}{item.name}", 1
        while name in taken:
            number += 1
            name = f"{environment.output}{item.name}#{number}"
        taken.add(name)
        made.append(Output(name, item.value))
    return tuple(made)


def _check_type(item: SelectItem, environment: Environment) -> None:
    if item.value.type in INTERVALS:
        hint = INTERVAL_IN_POSTGRES if environment.text.dialect is SqlDialect.POSTGRES else None
        environment.report.refuse("interval column", environment.at(item.node), hint)
    if item.value.type == NULL and not environment.report.errors and not environment.report.blocked:
        environment.error(f'the type of column "{item.name}" is not known', item.node, "CAST(NULL AS ...)")


def as_fields(items: Sequence[SelectItem], made: Sequence[Output]) -> tuple[SelectItem, ...]:
    """The items over the rows that were made of them."""
    pairs = zip(items, made, strict=True)
    return tuple(replace(item, value=Column(output.name, item.value.type)) for item, output in pairs)
