"""Random relations for tests of blocks and fingerprints."""

from __future__ import annotations

from hypothesis import reject
from hypothesis import strategies as st

from headrace.model.relation import Relation
from headrace.testing import relations


@st.composite
def drawable_relations(draw: st.DrawFn) -> Relation:
    """`relations()`, without those for which it finds no values: a union beside a sum asks for a wider decimal."""
    try:
        return draw(relations())
    except KeyError:
        reject()
