"""Settled queries as blocks in canonical form, inner blocks first made and then read by their fingerprints.

Aliases are canonical (`source`, `@fingerprint`, with `#k` in self-joins) and so are names of outputs: two views that
need the same block get equal ones. What a view calls its columns, and in which order it shows them, is added at the
end (`blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.model.block import Block, BlockInput, Derivation, DerivationKind, Stamp, Unfolding
from headrace.model.expr import Column, Expr, columns_of, conjunction, rename_columns, substitute
from headrace.model.relation import JoinKind, Output, Scan
from headrace.plan.canonical.assemble import (
    Finish,
    JoinCore,
    Rename,
    collect_kept,
    filters_of,
    name_outputs,
    plain_finish,
)
from headrace.plan.canonical.block_key import block_json, fingerprint_of_block
from headrace.plan.canonical.drafts import (
    Dated,
    Deduplicated,
    DraftCore,
    DraftQuery,
    Framed,
    Grouped,
    Node,
    Ranked,
    Sessioned,
    Sided,
    Unfolded,
    United,
    Windowed,
    alias_of,
    field_of,
    node_of,
    query_of_node,
)
from headrace.plan.canonical.expression_key import compact, key_of
from headrace.plan.canonical.expressions import canonical, in_order
from headrace.plan.canonical.function_facts import nulls_with
from headrace.plan.canonical.naming import stem_of, unique_names
from headrace.plan.canonical.tops import finish_node


@dataclass(frozen=True, slots=True)
class Built:
    """A block under canonical names, what its outputs were asked for as, and the blocks that it reads."""

    block: Block
    names: Mapping[str, str]
    inner: tuple[Built, ...]

    @property
    def identity(self) -> str:
        return f"@{self.block.fingerprint}"


def build(query: DraftQuery, salt: str) -> Built:
    """The block of a settled query."""
    node = node_of(query)
    if node is None:
        readers = (output.expr for output in query.outputs)
        return _build_core(query.core, readers, lambda rename: plain_finish(query.outputs, rename), salt)
    alias = query.core.inputs[0].alias
    outputs = {output.name: _local(output.expr, alias) for output in query.outputs}
    match node:
        case Grouped() | Deduplicated() | Ranked() | Framed() | Sessioned():
            return _build_core(node.core, node.readers, lambda rename: finish_node(node, outputs, rename), salt)
        case Sided():
            return _build_sided(node, outputs, salt)
        case United():
            return _build_union(node, outputs, salt)
        case Unfolded():
            return _build_unfolded(node, outputs, salt)
        case Dated():
            return _build_dated(node, outputs, salt)
        case Windowed():
            raise AssertionError("windows are spread before nodes are read")


def _local(expr: Expr, alias: str) -> Expr:
    """Columns of a node by the names of its fields."""
    return rename_columns(expr, {column: field_of(column) for column in columns_of(expr) if alias_of(column) == alias})


def _build_core(core: DraftCore, readers: Iterable[Expr], finish: Callable[[Rename], Finish], salt: str) -> Built:
    """A block over a join core; nodes among its inputs become inner blocks, of the fields that are read."""
    read = frozenset(column for expr in (*readers, *core.predicates) for column in columns_of(expr))
    inner = {i.alias: _build_node(i.alias, i.of, read, salt) for i in core.inputs if not isinstance(i.of, Scan)}
    identities = {
        input_.alias: input_.of.source if isinstance(input_.of, Scan) else inner[input_.alias].identity
        for input_ in core.inputs
    }
    columns = {
        f"{alias}.{field}": f"{alias}.{column}"
        for alias, built in inner.items()
        for field, column in built.names.items()
    }

    def with_columns(rename: Rename) -> Finish:
        return finish(lambda expr: rename(rename_columns(expr, columns)))

    predicates = tuple(rename_columns(predicate, columns) for predicate in core.predicates)
    assembled = JoinCore(identities, predicates).assemble(with_columns, salt)
    return Built(assembled.block, assembled.names, tuple(inner.values()))


def _build_node(alias: str, node: Node, read: frozenset[str], salt: str) -> Built:
    """All fields of a group-by or distinct, so that readers of different ones share it, and of all changes of a source;
    of others those that are read.
    """
    whole = query_of_node(node, alias)
    if isinstance(node, Grouped | Deduplicated | Dated):
        return build(whole, salt)
    outputs = tuple(output for output in whole.outputs if columns_of(output.expr) <= read)
    return build(DraftQuery(whole.core, outputs), salt)


# Joins with sides, and unions: each input goes to the operator as it is


@dataclass(frozen=True, slots=True)
class _Operand:
    """An input of such an operator: what it reads, its filter, and its outputs over the columns it reads (without
    alias).
    """

    identity: str
    filter: tuple[Expr, ...]
    values: Mapping[str, Expr]
    inner: tuple[Built, ...]

    def keys(self, exprs: Iterable[Expr]) -> list[str]:
        """The keys of expressions over this operand, whatever alias it will have."""
        return [key_of(self.at("", expr)) for expr in exprs]

    def at(self, alias: str, expr: Expr) -> Expr:
        return canonical(rename_columns(expr, {column: f"{alias}.{field_of(column)}" for column in columns_of(expr)}))


def _operand(query: DraftQuery, salt: str, becomes_null: bool = False) -> _Operand:
    """A source with its filter, or a block. Values that NULLs in all columns do not make NULL must be computed before
    the join.
    """
    columns = frozenset(column for output in query.outputs for column in columns_of(output.expr))
    computed_above = not becomes_null or all(nulls_with(output.expr, columns) for output in query.outputs)
    only = query.core.inputs[0]
    if len(query.core.inputs) == 1 and computed_above:
        if isinstance(only.of, Scan):
            return _Operand(only.of.source, query.core.predicates, query.values, ())
        if not query.core.predicates:
            return _over_block(_build_node(only.alias, only.of, columns, salt), query.values)
    built = build(query, salt)
    return _over_block(built, {output.name: Column(f".{output.name}", output.expr.type) for output in query.outputs})


def _over_block(built: Built, values: Mapping[str, Expr]) -> _Operand:
    def renamed(expr: Expr) -> Expr:
        return rename_columns(expr, {column: f".{built.names[field_of(column)]}" for column in columns_of(expr)})

    return _Operand(built.identity, (), {name: renamed(expr) for name, expr in values.items()}, (built,))


def _block_of(
    operands: Mapping[str, _Operand], outputs: tuple[Output, ...], top: Derivation, readers: Iterable[Expr], salt: str
) -> Block:
    conditions = (operand.at(alias, part) for alias, operand in operands.items() for part in operand.filter)
    block = Block(
        id="",
        inputs=tuple(BlockInput(alias, operand.identity) for alias, operand in operands.items()),
        classes=(),
        filters=filters_of(conditions, next(iter(operands))),
        residuals=(),
        keep=collect_kept(readers),
        outputs=outputs,
        top=top,
        fingerprint="",
    )
    return replace(block, fingerprint=fingerprint_of_block(block, salt))


def _aliases(operands: Iterable[_Operand]) -> tuple[str, ...]:
    """Aliases in the order of the operands: the identity, with a number where it occurs several times."""
    identities = [operand.identity for operand in operands]
    return tuple(
        identity if identities.count(identity) == 1 else f"{identity}#{identities[: place + 1].count(identity)}"
        for place, identity in enumerate(identities)
    )


def _build_sided(node: Sided, outputs: Mapping[str, Expr], salt: str) -> Built:
    left = _operand(node.left, salt, becomes_null=node.kind is JoinKind.FULL)
    right = _operand(node.right, salt, becomes_null=node.kind in (JoinKind.LEFT, JoinKind.FULL))
    orders = [(left, right), (right, left)] if node.kind is JoinKind.FULL else [(left, right)]
    built = [_make_sided_block(node, order, outputs, salt) for order in orders]
    block, names = min(built, key=lambda pair: compact(block_json(pair[0])))
    return Built(block, names, (*left.inner, *right.inner))


def _make_sided_block(
    node: Sided, operands: tuple[_Operand, _Operand], outputs: Mapping[str, Expr], salt: str
) -> tuple[Block, Mapping[str, str]]:
    by_alias = dict(zip(_aliases(operands), operands, strict=True))
    values = {
        name: operand.at(alias, expr) for alias, operand in by_alias.items() for name, expr in operand.values.items()
    }
    on = in_order(canonical(substitute(part, values)) for part in node.on)
    exprs = {name: canonical(substitute(expr, values)) for name, expr in outputs.items()}
    named, names = name_outputs(exprs)
    top = Derivation(DerivationKind(node.kind.value), on=conjunction(on))
    return _block_of(by_alias, named, top, exprs.values(), salt), names


def _build_union(node: United, outputs: Mapping[str, Expr], salt: str) -> Built:
    """Branches and columns have no order of their own: columns are sorted by what they are in all branches, branches
    by their columns.
    """
    operands = [_operand(_project_branch(branch, outputs), salt) for branch in node.branches]
    sources = [compact([operand.identity, *sorted(operand.keys(operand.filter))]) for operand in operands]
    rows = [
        dict(zip(outputs, operand.keys(operand.values[name] for name in outputs), strict=True)) for operand in operands
    ]
    same = {name: tuple(row[name] for row in rows) for name in outputs}
    first = {columns: name for name, columns in reversed(same.items())}
    order = sorted(first.values(), key=lambda name: (sorted(zip(sources, same[name], strict=True)), name))
    places = sorted(range(len(operands)), key=lambda place: (sources[place], [rows[place][name] for name in order]))
    ordered = [operands[place] for place in places]
    by_alias = dict(zip(_aliases(ordered), ordered, strict=True))
    stems = (stem_of(ordered[0].values[name]) for name in order)
    named = dict(zip(order, unique_names(stems), strict=True))
    columns = tuple(
        tuple(Output(named[name], operand.at(alias, operand.values[name])) for name in order)
        for alias, operand in by_alias.items()
    )
    shown = tuple(Output(column.name, Column(column.name, column.expr.type)) for column in columns[0])
    readers = (column.expr for branch in columns for column in branch)
    block = _block_of(by_alias, shown, Derivation(DerivationKind.UNION_ALL, columns), readers, salt)
    names = {name: named[first[same[name]]] for name in outputs}
    return Built(block, names, tuple(inner for operand in ordered for inner in operand.inner))


def _build_unfolded(node: Unfolded, outputs: Mapping[str, Expr], salt: str) -> Built:
    """The columns that stay are sorted by what they are; arrays keep their order, and are there even if equal."""
    operand = _operand(node.query, salt)
    (alias,) = _aliases((operand,))
    values = {name: operand.at(alias, expr) for name, expr in operand.values.items()}
    kept, names = name_outputs({name: value for name, value in values.items() if name in node.kept})
    taken = (column.name for column in kept)
    arrays = unique_names((*(stem_of(values[name]) for name in node.columns), "place"), taken)
    place = None if node.place is None else arrays[-1]
    unfolded = tuple(Output(new, values[old]) for old, new in zip(node.columns, arrays, strict=False))
    names = {**names, **dict(zip(node.columns, arrays, strict=False))}
    names = names if node.place is None else {**names, node.place: arrays[-1]}
    unfold = Unfolding(tuple(column.name for column in unfolded), place, node.outer)
    top = Derivation(DerivationKind.UNION_ALL, ((*kept, *unfolded),), unfold=unfold)
    shown, shown_names = name_outputs({n: canonical(rename_columns(e, names)) for n, e in outputs.items()})
    return Built(_block_of({alias: operand}, shown, top, values.values(), salt), shown_names, operand.inner)


def _build_dated(node: Dated, outputs: Mapping[str, Expr], salt: str) -> Built:
    operand = _operand(node.query, salt)
    (alias,) = _aliases((operand,))
    values = {name: operand.at(alias, expr) for name, expr in operand.values.items()}
    columns, names = name_outputs(values)
    (time,) = unique_names(("time",), (column.name for column in columns))
    top = Derivation(DerivationKind.UNION_ALL, (columns,), stamp=Stamp(time, node.from_beginning))
    names = {**names, node.time: time}
    shown, shown_names = name_outputs({n: canonical(rename_columns(e, names)) for n, e in outputs.items()})
    return Built(_block_of({alias: operand}, shown, top, values.values(), salt), shown_names, operand.inner)


def _project_branch(branch: DraftQuery, outputs: Mapping[str, Expr]) -> DraftQuery:
    values = branch.values
    exprs = (Output(name, canonical(substitute(expr, values))) for name, expr in outputs.items())
    return DraftQuery(branch.core, tuple(exprs))
