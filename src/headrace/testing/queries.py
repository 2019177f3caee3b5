"""Random queries as SQL text, in the dialect and subset that `declare.sql` reads."""

from __future__ import annotations

from hypothesis import strategies as st

from headrace.testing.tables import SCHEMA, Schema


@st.composite
def queries(draw: st.DrawFn, schema: Schema = SCHEMA, *, portable: bool = False) -> str:
    """A query over the schema's sources. With `portable`, one that DuckDB and PostgreSQL understand alike."""
    source = schema[draw(st.sampled_from(sorted(schema)))]
    columns = [column.name for column in source.columns or ()]
    chosen = draw(st.lists(st.sampled_from(columns), min_size=1, unique=True))
    return f"SELECT {', '.join(f'q.{name}' for name in chosen)} FROM {source.name} AS q"
