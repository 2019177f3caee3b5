"""The shape of a source's rows. Rows of two shapes cannot be mixed, so a source whose shape changes is read again."""

from __future__ import annotations

import json

from headrace.model.catalogue import Source


def shape_of(source: Source) -> str:
    """Where rows come from, what columns they have, and how they are told apart; not in which server they are."""
    origin = repr(None) if source.origin is None else source.origin.identity
    columns = {column.name: str(column.type) for column in source.columns or ()}
    return json.dumps(
        {
            "kind": source.kind.value,
            "site": source.site,
            "from": origin,
            "columns": columns,
            "key": source.key,
            "static": source.static,
            "time": source.time,
        }
    )
