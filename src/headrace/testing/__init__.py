"""Random schemas, tables, histories, relations and SQL queries for tests (Hypothesis strategies).

SCHEMA                sources r, s, t that have a column of every type
schemas()             other schemas of the same kind
tables(schema)        rows for every source: few different values, NULLs, duplicates
changes(tables)       one batch of inserts, updates and deletes that the tables allow
relations(schema)     random trees of the algebra
queries(schema)       random queries as SQL text of the supported subset
"""

from headrace.testing.queries import queries
from headrace.testing.relations import relations
from headrace.testing.tables import SCHEMA, Schema, Tables, changes, make_source, schemas, tables, values

__all__ = [
    "SCHEMA",
    "Schema",
    "Tables",
    "changes",
    "make_source",
    "queries",
    "relations",
    "schemas",
    "tables",
    "values",
]
