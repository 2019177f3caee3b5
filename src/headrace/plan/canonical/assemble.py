"""The join core of a block in canonical form: inputs, classes, filters and residuals, whatever is on top.

A core comes with draft aliases and settled predicates. Its inputs are sources by name and earlier blocks by
`@fingerprint`; with `#k` added where one occurs several times, that is their canonical alias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

from headrace.model.block import Aggregation, Block, BlockFilter, BlockInput, ColumnId, Derivation, Residual
from headrace.model.expr import Call, Column, Expr, Literal, columns_of, rename_columns
from headrace.model.relation import Output
from headrace.plan.canonical.block_key import block_json, expressions_of, fingerprint_of_block
from headrace.plan.canonical.drafts import alias_of, aliases_in, field_of
from headrace.plan.canonical.equal_columns import EqualColumns
from headrace.plan.canonical.expression_key import Json, compact, expr_json, key_of
from headrace.plan.canonical.expression_text import predicate_text
from headrace.plan.canonical.expressions import are_comparable, canonical
from headrace.plan.canonical.function_facts import can_fail
from headrace.plan.canonical.naming import stem_of, unique_names
from headrace.plan.canonical.numbering import Numbering, numberings
from headrace.plan.canonical.predicates import equalities

Rename = Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class Finish:
    """What is above the join core: outputs under canonical names, sorted, each once; the operator on top; what reads
    the core.

    `names` maps the names that the outputs were asked for to the canonical ones.
    """

    outputs: tuple[Output, ...]
    names: Mapping[str, str]
    top: Aggregation | Derivation | None = None
    readers: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Assembled:
    block: Block
    names: Mapping[str, str]
    aliases: Numbering


@dataclass(frozen=True, slots=True)
class JoinCore:
    """`identities` says what each draft alias reads: a source's name, or `@` and an earlier block's fingerprint."""

    identities: Mapping[str, str]
    predicates: tuple[Expr, ...]

    def assemble(self, finish: Callable[[Rename], Finish], salt: str = "") -> Assembled:
        """The block of the smallest text among all numberings of its aliases."""
        candidates = (self._with(numbering, finish) for numbering in numberings(self.identities, self._said(finish)))
        best = min(candidates, key=lambda candidate: compact(block_json(candidate.block)))
        return replace(best, block=replace(best.block, fingerprint=fingerprint_of_block(best.block, salt)))

    def _said(self, finish: Callable[[Rename], Finish]) -> Callable[[Numbering], Iterable[Json]]:
        def said(numbering: Numbering) -> Iterator[Json]:
            block = self._with(numbering, finish).block
            yield from map(expr_json, expressions_of(block))
            for members in block.classes:
                yield [f"{alias}.{column}" for alias, column in members]

        return said

    def _with(self, numbering: Numbering, finish: Callable[[Rename], Finish]) -> Assembled:
        rename = renaming(numbering)
        above = finish(rename)
        classes, conditions = split_equalities(map(rename, self.predicates))
        aliases = sorted(set(numbering.values()))
        block = Block(
            id="",
            inputs=tuple(BlockInput(alias, alias.partition("#")[0]) for alias in aliases),
            classes=classes,
            filters=filters_of(conditions, aliases[0]),
            residuals=residuals_of(conditions),
            keep=collect_kept(above.readers),
            outputs=above.outputs,
            top=above.top,
            fingerprint="",
        )
        return Assembled(block, above.names, numbering)


def renaming(numbering: Numbering) -> Rename:
    """Columns get canonical aliases, and expressions the order that goes with them."""

    def rename(expr: Expr) -> Expr:
        names = {column: f"{numbering[alias_of(column)]}.{field_of(column)}" for column in columns_of(expr)}
        return canonical(rename_columns(expr, names))

    return rename


def split_equalities(predicates: Iterable[Expr]) -> tuple[tuple[tuple[ColumnId, ...], ...], tuple[Expr, ...]]:
    """Classes over several aliases, and all other conditions: among these, equalities of columns of one alias."""
    equal, others = EqualColumns(), []
    for predicate in predicates:
        if is_column_equality(predicate):
            equal.unite(*predicate.arguments)
        else:
            others.append(predicate)
    classes = []
    for members in equal.classes():
        if len({alias_of(column.name) for column in members}) > 1:
            classes.append(tuple((alias_of(column.name), field_of(column.name)) for column in members))
        others += _within_aliases(members, _constant_columns(others))
    return tuple(classes), tuple(others)


def is_column_equality(predicate: Expr) -> TypeGuard[Call]:
    if not isinstance(predicate, Call) or predicate.function != "=":
        return False
    left, right = predicate.arguments
    return isinstance(left, Column) and isinstance(right, Column) and are_comparable(left.type, right.type)


def _constant_columns(conditions: Iterable[Expr]) -> frozenset[str]:
    """Columns that equal a literal. Settled predicates say so of all columns of a class, or of none."""
    return frozenset(
        condition.arguments[0].name
        for condition in conditions
        if isinstance(condition, Call)
        and condition.function == "="
        and isinstance(condition.arguments[0], Column)
        and isinstance(condition.arguments[1], Literal)
    )


def _within_aliases(members: tuple[Column, ...], constants: frozenset[str]) -> Iterator[Expr]:
    """A class as equalities of columns of one alias; constants make them equal without saying so."""
    for alias in sorted({alias_of(column.name) for column in members}):
        columns = tuple(column for column in members if alias_of(column.name) == alias)
        if columns[0].name not in constants:
            yield from equalities((columns,))


def filters_of(conditions: Iterable[Expr], default: str) -> tuple[BlockFilter, ...]:
    """Conditions on one alias, by alias. A condition that reads no column is the default alias's."""
    by_alias: dict[str, list[Expr]] = {}
    for condition in conditions:
        aliases = aliases_in(condition)
        if len(aliases) <= 1:
            by_alias.setdefault(min(aliases, default=default), []).append(condition)
    return tuple(_filter(alias, by_alias[alias]) for alias in sorted(by_alias))


def _filter(alias: str, conditions: list[Expr]) -> BlockFilter:
    """Each once, sorted by text; what can fail comes last, because the others may guard it."""
    texts = {key_of(condition): (can_fail(condition), predicate_text(condition)) for condition in conditions}
    different = {key_of(condition): condition for condition in conditions}.values()
    ordered = sorted(different, key=lambda condition: (*texts[key_of(condition)], key_of(condition)))
    return BlockFilter(alias, tuple(ordered), tuple(texts[key_of(condition)][1] for condition in ordered))


def residuals_of(conditions: Iterable[Expr]) -> tuple[Residual, ...]:
    """Conditions on several aliases; their text is written when aliases have their final names."""
    several = [condition for condition in conditions if len(aliases_in(condition)) > 1]
    ordered = sorted(several, key=lambda condition: (can_fail(condition), key_of(condition)))
    return tuple(Residual(tuple(sorted(aliases_in(condition))), condition, "") for condition in ordered)


def collect_kept(readers: Iterable[Expr]) -> dict[str, tuple[str, ...]]:
    """Columns that are read above the core, by alias."""
    columns = sorted({column for reader in readers for column in columns_of(reader)})
    aliases = sorted(set(map(alias_of, columns)))
    return {alias: tuple(field_of(column) for column in columns if alias_of(column) == alias) for alias in aliases}


def plain_finish(outputs: Iterable[Output], rename: Rename) -> Finish:
    """Outputs straight from the core."""
    exprs = {output.name: rename(output.expr) for output in outputs}
    named, names = name_outputs(exprs)
    return Finish(named, names, readers=tuple(exprs.values()))


def name_outputs(exprs: Mapping[str, Expr], taken: Iterable[str] = ()) -> tuple[tuple[Output, ...], Mapping[str, str]]:
    """Each expression once, sorted and under a canonical name; and the name that each original one got."""
    by_key = {key_of(expr): expr for expr in exprs.values()}
    keys = sorted(by_key)
    names = dict(zip(keys, unique_names((stem_of(by_key[key]) for key in keys), taken), strict=True))
    outputs = tuple(Output(names[key], by_key[key]) for key in keys)
    return outputs, {name: names[key_of(expr)] for name, expr in exprs.items()}
