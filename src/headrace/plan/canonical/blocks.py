"""A query as blocks: inner ones first, the view's own last.

    relation --flatten--> query --settle--> the same in simplest form --build--> canonical blocks --blocks_of--> with
    the view's names

Equal blocks of one query are one block. Fingerprints do not depend on the view's name, nor on what its columns are
called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.model.block import Block
from headrace.model.relation import Output, Relation, fields_of
from headrace.plan.canonical.block_aliases import with_aliases
from headrace.plan.canonical.build import Built, build
from headrace.plan.canonical.flatten import flatten
from headrace.plan.canonical.settle import settle


def blocks_of(name: str, query: Relation) -> tuple[Block, ...]:
    """The blocks of a view: `name/1`, `name/2` and so on, each after those that it reads, and `name` itself.

    Raises UnsupportedSql for the few queries that have no blocks: a time window used other than to group by.
    """
    settled = settle(flatten(query))
    built = build(settled, salt=name)
    inner = _in_order(built)
    ids = {one.identity: f"{name}/{number}" for number, one in enumerate(inner, 1)}
    exprs = {output.name: output.expr for output in built.block.outputs}
    outputs = tuple(Output(field.name, exprs[built.names[field.name]]) for field in fields_of(query))
    own = replace(built.block, outputs=outputs)
    return (*(_name_block(one.block, ids[one.identity], ids) for one in inner), _name_block(own, name, ids))


def _in_order(built: Built) -> tuple[Built, ...]:
    """Inner blocks, each once and after those that it reads."""
    found: dict[str, Built] = {}
    for inner in built.inner:
        for one in (*_in_order(inner), inner):
            found.setdefault(one.identity, one)
    return tuple(found.values())


def _name_block(block: Block, id_: str, ids: Mapping[str, str]) -> Block:
    """The block with the ids of earlier blocks in place of their fingerprints."""
    aliases = {}
    for input_ in block.inputs:
        identity, hash_, number = input_.alias.partition("#")
        aliases[input_.alias] = f"{ids.get(identity, identity)}{hash_}{number}"
    return with_aliases(replace(block, id=id_), aliases, ids)
