"""A query that is evaluated from scratch at every push, because a contract asks for `refresh: full`."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.expr import is_deterministic
from headrace.model.relation import Field, Relation, inputs_of
from headrace.model.rewrite import expressions_of

SOURCE_PREFIX = "source:"
"""Begins the names of sources in the text: no query calls a table of its own so."""


def backquote(name: str) -> str:
    """A name as Spark's SQL takes it, whatever characters are in it."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class FullQuery:
    """`sql` is Spark's, over sources alone: views are written out in it. `reads` are these sources, sorted.

    `query` is what it means, if that is understood; then any engine can evaluate it. Else only Spark can, and `fields`
    are the types that its answer is brought to.
    """

    sql: str
    reads: tuple[str, ...]
    fields: tuple[Field, ...]
    query: Relation | None = None

    @property
    def reads_time(self) -> bool:
        """Whether the answer changes as time passes, without a change of any source."""
        return self.query is not None and _reads_time(self.query)


def _reads_time(relation: Relation) -> bool:
    return not all(map(is_deterministic, expressions_of(relation))) or any(map(_reads_time, inputs_of(relation)))
