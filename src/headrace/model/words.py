"""Vertices in words, for everything that people read: `customer360 at us`, not `d:customer360|customer360@us~b600ec`.

Documents keep ids; messages, tables and logs use these names. A vertex of a plan is named after what it holds; of one
that is only known by its id, the id is taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headrace.model.names import name_of_view
from headrace.model.plan import Vertex, VertexKind

_NAMES = r"[^|@\s]+(?: [^|@\s]+)*"
_ID = re.compile(
    rf"\b(?P<kind>[rd]):(?P<scope>{_NAMES})(?:\|(?P<changed>{_NAMES}))?"
    r"@(?P<site>[^~#\s:;,\"')]+(?:(?: [^~#\s:;,\"')]+)*(?=~[0-9a-f]{6}))?)(?:~[0-9a-f]{6})?(?:#[^\s:;,\"')]+)?"
)
"""Relation or delta, what is joined, whose changes, where, the beginning of the fingerprint, and for whom alone.

Names may have spaces within. Where no fingerprint ends the name of a site its last words stay as they are, which reads
the same.
"""


def name_dataset(vertex: Vertex) -> str:
    """What a vertex holds: `orders x customers`, or `changes of orders x customers made by orders`."""
    return _name(vertex.kind is VertexKind.DELTA, vertex.stands_for, vertex.scope, vertex.delta_of or ())


def name_vertex(vertex: Vertex) -> str:
    """What a vertex holds, and where."""
    return f"{name_dataset(vertex)} at {vertex.site}"


def name_id(id_: str, vertices: Mapping[str, Vertex] | None = None) -> str:
    """The vertex with an id; as well as the id tells, if it is not among the vertices."""
    known = (vertices or {}).get(id_)
    if known is not None:
        return name_vertex(known)
    return _ID.sub(_name_match, id_)


def name_ids(ids: Iterable[str], vertices: Mapping[str, Vertex] | None = None) -> list[str]:
    """Each name once: people do not care which columns two copies of a dataset have."""
    return list(dict.fromkeys(name_id(id_, vertices) for id_ in ids))


def put_in_words(text: str, vertices: Mapping[str, Vertex] | None = None) -> str:
    """A message in which every id of a vertex is replaced by its name."""
    for id_ in sorted(vertices or (), key=lambda one: (-len(one), one)):
        if id_ in text:
            text = text.replace(id_, name_id(id_, vertices))
    return _ID.sub(_name_match, text)


def shorten_message(text: str) -> str:
    """The first line of a message that says something, in words; empty if none does."""
    return put_in_words(next((line.strip() for line in text.splitlines() if line.strip()), ""))


def name_reason(reason: str) -> str:
    """Why a contract is refused, in a few words."""
    kind, _, what = reason.partition(":")
    match kind:
        case "operator":
            return f"too slow to make {name_id(what.rpartition('>')[2])}"
        case "link":
            return f"the link from {' to '.join(what.split('>'))} is full"
        case "cpu":
            return f"too few cores at {what}"
        case "disk":
            return f"too little disk at {what}"
        case "stays":
            return f"rows of {what} may not go there"
        case "no_route":
            return "no links lead there"
        case "unsupported":
            return f"{what} is not maintained"
        case _:
            return reason


def _name_match(found: re.Match[str]) -> str:
    scope, changed = found["scope"].split(","), (found["changed"] or "").split(",")
    return f"{_name(found['kind'] == 'd', None, scope, changed)} at {found['site']}"


def _name(is_delta: bool, block: str | None, scope: Iterable[str], changed: Iterable[str]) -> str:
    """A delta that carries the changes of some of what it joins says of which."""
    what = name_of_view(block or " x ".join(scope))
    if not is_delta:
        return what
    made_by = f" made by {', '.join(changed)}" if set(changed) != set(scope) else ""
    return f"changes of {what}{made_by}"
