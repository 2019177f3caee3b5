"""Settled queries as blocks in canonical form, inner blocks first made and then read by their fingerprints.

Aliases are canonical (`source`, `@fingerprint`, with `#k` in self-joins) and so are names of outputs: two views that
need the same block get equal ones. What a view calls its columns, and in which order it shows them, is added at the
end (`blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.model.block import Aggregation, Block, BlockInput, Derivation, DerivationKind, Window
from headrace.model.expr import Column, Expr, columns_of, conjunction, rename_columns, substitute
from headrace.model.relation import AggregateCall, JoinKind, Output, Ranking, Scan
from headrace.plan.assemble import (
    Finish,
    JoinCore,
    Rename,
    filters_of,
    kept,
    named_outputs,
    plain_finish,
)
from headrace.plan.canonical import canonical, in_order
from headrace.plan.drafts import (
    Core,
    Deduplicated,
    Grouped,
    Query,
    Ranked,
    Sided,
    United,
    Windowed,
    alias_of,
    field_of,
    node_of,
    query_of_node,
)
from headrace.plan.expression_key import compact, key_of
from headrace.plan.fingerprint import block_json, call_json, fingerprint_of_block
from headrace.plan.function_facts import nulls_with
from headrace.plan.naming import stem_of, unique_names
from headrace.plan.time_windows import misplaced_window

WINDOW_START, WINDOW_END = "window_start", "window_end"


@dataclass(frozen=True, slots=True)
class Built:
    """A block under canonical names, what its outputs were asked for as, and the blocks that it reads."""

    block: Block
    names: Mapping[str, str]
    inner: tuple[Built, ...]

    @property
    def identity(self) -> str:
        return f"@{self.block.fingerprint}"


def build(query: Query, salt: str) -> Built:
    """The block of a settled query."""
    node = node_of(query)
    if node is None:
        return _built_core(query.core, lambda rename: plain_finish(query.outputs, rename), salt)
    alias = query.core.inputs[0].alias
    outputs = {output.name: _local(output.expr, alias) for output in query.outputs}
    match node:
        case Grouped():
            return _built_core(node.core, lambda rename: _grouped(node, outputs, rename), salt)
        case Deduplicated():
            return _built_core(node.core, lambda rename: _deduplicated(node, outputs, rename), salt)
        case Ranked():
            return _built_core(node.core, lambda rename: _ranked(node, outputs, rename), salt)
        case Sided():
            return _sided(node, outputs, salt)
        case United():
            return _united(node, outputs, salt)
        case Windowed():
            raise misplaced_window()


def _local(expr: Expr, alias: str) -> Expr:
    """Columns of a node by the names of its fields."""
    return rename_columns(expr, {column: field_of(column) for column in columns_of(expr) if alias_of(column) == alias})


def _built_core(core: Core, finish: Callable[[Rename], Finish], salt: str) -> Built:
    """A block over a join core; nodes among its inputs become inner blocks."""
    inner = {i.alias: build(query_of_node(i.of, i.alias), salt) for i in core.inputs if not isinstance(i.of, Scan)}
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
    assembled = JoinCore(identities, predicates).assembled(with_columns, salt)
    return Built(assembled.block, assembled.names, tuple(inner.values()))


# Group-by, distinct, top-k


def _grouped(node: Grouped, outputs: Mapping[str, Expr], rename: Rename) -> Finish:
    keys = {key.name: rename(key.expr) for key in node.keys}
    named_keys, key_names = named_outputs(keys)
    calls = {call.name: _renamed_call(call, rename) for call in node.calls}
    ordered = sorted(calls.values(), key=lambda call: compact(call_json(call)))
    bounds = () if node.window is None else (WINDOW_START, WINDOW_END)
    taken = (*(key.name for key in named_keys), *bounds)
    by_key = dict(zip(map(_call_text, ordered), unique_names(map(stem_of, ordered), taken), strict=True))
    names = {**key_names, **{name: by_key[_call_text(call)] for name, call in calls.items()}}
    window = None
    if node.window is not None:
        names |= {node.window.start: WINDOW_START, node.window.end: WINDOW_END}
        w = node.window
        window = Window(rename(w.time), w.size_ms, w.slide_ms, w.offset_ms, WINDOW_START, WINDOW_END)
    having = in_order(canonical(rename_columns(part, names)) for part in node.having)
    top = Aggregation(
        named_keys,
        tuple(replace(call, name=by_key[_call_text(call)]) for call in ordered),
        window,
        conjunction(having) if having else None,
    )
    above, asked = named_outputs({name: canonical(rename_columns(expr, names)) for name, expr in outputs.items()})
    arguments = tuple(call.argument for call in ordered if call.argument is not None)
    times = () if window is None else (window.time,)
    return Finish(above, asked, top, (*keys.values(), *arguments, *times))


def _renamed_call(call: AggregateCall, rename: Rename) -> AggregateCall:
    return call if call.argument is None else replace(call, argument=rename(call.argument))


def _call_text(call: AggregateCall) -> str:
    return compact(call_json(call))


def _deduplicated(node: Deduplicated, outputs: Mapping[str, Expr], rename: Rename) -> Finish:
    columns = {column.name: rename(column.expr) for column in node.columns}
    named, names = named_outputs(columns)
    above, asked = named_outputs({name: canonical(rename_columns(expr, names)) for name, expr in outputs.items()})
    return Finish(above, asked, Derivation(DerivationKind.DISTINCT, (named,)), tuple(columns.values()))


def _ranked(node: Ranked, outputs: Mapping[str, Expr], rename: Rename) -> Finish:
    """Columns that rows of equal rank agree on come first, sorted; the others break ties, so row_number keeps their
    order.
    """
    columns = {column.name: rename(column.expr) for column in node.columns}
    partition = {key_of(expr): expr for expr in map(rename, node.partition)}
    order = [replace(one, expr=rename(one.expr)) for one in node.order]
    agreed = {**partition, **{key_of(one.expr): one.expr for one in order}}
    others = {key_of(expr): expr for expr in columns.values() if key_of(expr) not in agreed}
    last = list(others) if node.ranking is Ranking.ROW_NUMBER else sorted(others)
    keys = (*sorted(agreed), *last)
    exprs = {**agreed, **others}
    by_key = dict(zip(keys, unique_names((stem_of(exprs[key]) for key in keys), ("rank",)), strict=True))

    def at(expr: Expr) -> Column:
        return Column(by_key[key_of(expr)], expr.type)

    names = {name: by_key[key_of(expr)] for name, expr in columns.items()}
    names |= {} if node.rank_name is None else {node.rank_name: "rank"}
    top = Derivation(
        DerivationKind.TOPK,
        (tuple(Output(by_key[key], exprs[key]) for key in keys),),
        partition=tuple(at(partition[key]) for key in sorted(partition)),
        order=tuple(replace(one, expr=at(one.expr)) for one in order),
        limit=node.limit,
        offset=node.offset,
        ranking=node.ranking,
        rank_name=None if node.rank_name is None else "rank",
    )
    above, asked = named_outputs({name: canonical(rename_columns(expr, names)) for name, expr in outputs.items()})
    return Finish(above, asked, top, tuple(exprs.values()))


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
        """Of expressions over this operand, whatever alias it will have."""
        return [key_of(self.at("", expr)) for expr in exprs]

    def at(self, alias: str, expr: Expr) -> Expr:
        return canonical(rename_columns(expr, {column: f"{alias}.{field_of(column)}" for column in columns_of(expr)}))


def _operand(query: Query, salt: str, becomes_null: bool = False) -> _Operand:
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
            return _over_block(build(query_of_node(only.of, only.alias), salt), query.values)
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
        keep=kept(readers),
        outputs=outputs,
        top=top,
        fingerprint="",
    )
    return replace(block, fingerprint=fingerprint_of_block(block, salt))


def _aliases(operands: Iterable[_Operand]) -> tuple[str, ...]:
    """In the order of the operands: the identity, with a number where it occurs several times."""
    identities = [operand.identity for operand in operands]
    return tuple(
        identity if identities.count(identity) == 1 else f"{identity}#{identities[: place + 1].count(identity)}"
        for place, identity in enumerate(identities)
    )


def _sided(node: Sided, outputs: Mapping[str, Expr], salt: str) -> Built:
    left = _operand(node.left, salt, becomes_null=node.kind is JoinKind.FULL)
    right = _operand(node.right, salt, becomes_null=node.kind in (JoinKind.LEFT, JoinKind.FULL))
    orders = [(left, right), (right, left)] if node.kind is JoinKind.FULL else [(left, right)]
    built = [_sided_block(node, order, outputs, salt) for order in orders]
    block, names = min(built, key=lambda pair: compact(block_json(pair[0])))
    return Built(block, names, (*left.inner, *right.inner))


def _sided_block(
    node: Sided, operands: tuple[_Operand, _Operand], outputs: Mapping[str, Expr], salt: str
) -> tuple[Block, Mapping[str, str]]:
    by_alias = dict(zip(_aliases(operands), operands, strict=True))
    values = {
        name: operand.at(alias, expr) for alias, operand in by_alias.items() for name, expr in operand.values.items()
    }
    on = in_order(canonical(substitute(part, values)) for part in node.on)
    exprs = {name: canonical(substitute(expr, values)) for name, expr in outputs.items()}
    named, names = named_outputs(exprs)
    top = Derivation(DerivationKind(node.kind.value), on=conjunction(on))
    return _block_of(by_alias, named, top, exprs.values(), salt), names


def _united(node: United, outputs: Mapping[str, Expr], salt: str) -> Built:
    """Branches and columns have no order of their own: columns are sorted by what they are in all branches, branches
    by their columns.
    """
    operands = [_operand(_projected(branch, outputs), salt) for branch in node.branches]
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


def _projected(branch: Query, outputs: Mapping[str, Expr]) -> Query:
    values = branch.values
    exprs = (Output(name, canonical(substitute(expr, values))) for name, expr in outputs.items())
    return Query(branch.core, tuple(exprs))
