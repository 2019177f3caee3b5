"""Names of tables in PostgreSQL: `orders`, `sales.orders`, `sales."Order Items"`. All who read one read it here.

A name is read as PostgreSQL reads one (`'...'::regclass`): a part without quotes is folded to lower case, as far as its
letters are ASCII; in quotes every character counts, and a quote is written twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_PART = 63
"""Bytes; PostgreSQL cuts longer names off."""
_PART = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s."]+))\s*')
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_CAPITALS = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


class NotATable(ValueError):
    """A text that names no table; says why, and what to write."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True, slots=True)
class TableName:
    """A table, as PostgreSQL's catalogue has it. Without a schema it is the one that the search path finds."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        """The name as SQL writes it: what is read from this is this table."""
        return ".".join(quote_name(part) for part in (self.schema, self.name) if part is not None)


def read_table_name(text: str) -> TableName:
    """The table that a text names. Raises NotATable."""
    parts: list[str] = []
    position = 0
    while True:
        found = _PART.match(text, position)
        if found is None or (found.end() < len(text) and text[found.end()] != "."):
            raise NotATable(f"{show_table(text)} is not the name of a table", _advise(text))
        parts.append(_read_part(found, text))
        position = found.end() + 1
        if position > len(text):
            break
    if len(parts) > 2:
        raise NotATable(f"{show_table(text)} is not the name of a table", f"it has {len(parts)} parts: {_ADVICE}")
    return TableName(parts[0] if len(parts) == 2 else None, parts[-1])


def _read_part(found: re.Match[str], text: str) -> str:
    quoted, plain = found.groups()
    part = plain.translate(_CAPITALS) if quoted is None else quoted.replace('""', '"')
    if not part or "\0" in part:
        raise NotATable(f"{show_table(text)} is not the name of a table", "write a name between the quotes")
    size = len(part.encode("utf-8", "surrogatepass"))
    if size > LONGEST_PART:
        raise NotATable(f'name "{part[:20]}..." has {size} bytes', f"PostgreSQL has names of at most {LONGEST_PART}")
    return part


_ADVICE = "write schema.table, or table alone; a name with spaces or dots is in double quotes"


def _advise(text: str) -> str:
    plain = text.strip()
    if plain and '"' not in plain and ".." not in plain and plain.strip(".") == plain:
        parts = ".".join(f'"{part}"' if re.search(r"\s", part) else part for part in plain.split("."))
        return f"write '{parts}': a name with spaces is in double quotes"
    return _ADVICE


def quote_name(name: str) -> str:
    """A name as SQL needs it: in quotes unless it is plain and no word of SQL."""
    return name if _PLAIN.fullmatch(name) and name not in _RESERVED else '"' + name.replace('"', '""') + '"'


def show_table(table: str) -> str:
    """A table in a message: in quotes, unless its name has some."""
    return table if '"' in table else f'"{table}"'


_RESERVED = frozenset(
    """all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation
    column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze
    from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit
    localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references
    returning right select session_user similar some symmetric system_user table tablesample then to trailing true union
    unique user using variadic verbose when where window with""".split()
)
"""Words that PostgreSQL takes for a name only in quotes."""
