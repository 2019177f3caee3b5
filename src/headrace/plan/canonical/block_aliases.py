"""A block with other aliases: the same expressions in the same order, under the names that people see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from headrace.model.block import Aggregation, Block, BlockFilter, BlockInput, ColumnId, Derivation, Residual
from headrace.model.expr import Expr, columns_of, rename_columns
from headrace.model.relation import Output
from headrace.plan.canonical.drafts import alias_of, field_of
from headrace.plan.canonical.expression_text import predicate_text

Rename = Callable[[Expr], Expr]


NO_COLUMNS: Mapping[ColumnId, str] = MappingProxyType({})


def with_aliases(
    block: Block,
    aliases: Mapping[str, str],
    ids: Mapping[str, str],
    columns: Mapping[ColumnId, str] = NO_COLUMNS,
) -> Block:
    """`aliases` maps every alias of the block, `ids` the identities (`@fingerprint`) of earlier blocks that it
    reads, `columns` those that are called otherwise, by their alias before.
    """

    def name(alias: str, column: str) -> str:
        return columns.get((alias, column), column)

    def rename(expr: Expr) -> Expr:
        names = {
            column: f"{aliases[alias_of(column)]}.{name(alias_of(column), field_of(column))}"
            for column in columns_of(expr)
            if "." in column and alias_of(column) in aliases
        }
        return rename_columns(expr, names)

    return replace(
        block,
        inputs=tuple(_input(input_, aliases, ids) for input_ in block.inputs),
        classes=tuple(
            tuple((aliases[alias], name(alias, column)) for alias, column in members) for members in block.classes
        ),
        filters=tuple(_filter(one, aliases, rename, bool(columns)) for one in block.filters),
        residuals=tuple(_residual(residual, aliases, rename) for residual in block.residuals),
        keep={aliases[alias]: tuple(name(alias, one) for one in kept) for alias, kept in block.keep.items()},
        outputs=_outputs(block.outputs, rename),
        top=_top(block.top, rename),
    )


def _input(input_: BlockInput, aliases: Mapping[str, str], ids: Mapping[str, str]) -> BlockInput:
    if input_.source not in ids:
        return BlockInput(aliases[input_.alias], input_.source, input_.fingerprint)
    return BlockInput(aliases[input_.alias], ids[input_.source], input_.source.removeprefix("@"))


def _filter(filter_: BlockFilter, aliases: Mapping[str, str], rename: Rename, anew: bool) -> BlockFilter:
    """Texts have no alias; they are written `anew` if columns are called otherwise."""
    conjuncts = tuple(map(rename, filter_.conjuncts))
    texts = tuple(map(predicate_text, conjuncts)) if anew else filter_.texts
    return BlockFilter(aliases[filter_.alias], conjuncts, texts)


def _residual(residual: Residual, aliases: Mapping[str, str], rename: Rename) -> Residual:
    predicate = rename(residual.predicate)
    return Residual(
        tuple(aliases[alias] for alias in residual.aliases), predicate, predicate_text(predicate, unqualified=False)
    )


def _outputs(outputs: tuple[Output, ...], rename: Rename) -> tuple[Output, ...]:
    return tuple(Output(output.name, rename(output.expr)) for output in outputs)


def _top(top: Aggregation | Derivation | None, rename: Rename) -> Aggregation | Derivation | None:
    """Names of the operator's own columns (in `having`, `partition`, `order`) have no alias and stay."""
    match top:
        case Aggregation(keys, calls, window, _):
            return replace(
                top,
                keys=_outputs(keys, rename),
                calls=tuple(call.over(rename) for call in calls),
                window=None if window is None else replace(window, time=rename(window.time)),
            )
        case Derivation(_, columns, on):
            return replace(
                top,
                columns=tuple(_outputs(outputs, rename) for outputs in columns),
                on=None if on is None else rename(on),
            )
    return None
