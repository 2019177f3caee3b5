"""What links are believed to carry, by what sites say of those that lead to them; kept for the next coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.model.errors import UnreadableState
from headrace.observe.links import LinkBelief, believe
from headrace.site.folder import Folder

FILE = "links.json"

Ends = tuple[str, str]
LinkBeliefs = Mapping[Ends, LinkBelief]


def follow_links(before: LinkBeliefs, links: Iterable[Mapping[str, Any]], now_s: float) -> dict[Ends, LinkBelief]:
    """Beliefs after one more look at links, as `status` tells of them; `now_s` is seconds since 1970."""
    told = {(str(link["from"]), str(link["to"])): link["capacity_bytes_s"] for link in links}
    found = {ends: believe(before.get(ends), told.get(ends), now_s) for ends in {**before, **told}}
    return {ends: belief for ends, belief in sorted(found.items()) if belief is not None}


def write_beliefs(folder: Folder, beliefs: LinkBeliefs, shares: Mapping[Ends, float]) -> None:
    """`shares` are bytes that were sent for each byte that is planned."""
    found = [[*ends, one.bytes_s, one.at_s, shares.get(ends)] for ends, one in beliefs.items()]
    folder.write_json(FILE, found, indent=None)


def read_beliefs(folder: Folder) -> tuple[dict[Ends, LinkBelief], dict[Ends, float]]:
    """Beliefs and shares; nothing, if what is there cannot be read: links are measured again."""
    beliefs, shares = dict[Ends, LinkBelief](), dict[Ends, float]()
    try:
        for src, dst, bytes_s, at_s, share in folder.read_json(FILE) or ():
            beliefs[str(src), str(dst)] = LinkBelief(float(bytes_s), float(at_s))
            if share is not None:
                shares[str(src), str(dst)] = float(share)
    except (UnreadableState, TypeError, ValueError):
        return {}, {}
    return beliefs, shares
