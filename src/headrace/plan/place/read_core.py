"""The core of an instance: a tree of Cloud nodes, and where devices and sources are attached to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.model.errors import nearest_name
from headrace.plan.exact_json import Path, shown
from headrace.plan.place.fields import PlacementFields
from headrace.plan.place.instance import CloudTree, CoreLink


def read_core(fields: PlacementFields, devices: set[str], in_cloud: frozenset[str]) -> CloudTree | None:
    found = fields.document.get("core")
    if found is None:
        return None
    found = fields.object(found, ("core",))
    fields.fields(found, ("core",), ("links", "attach"))
    links = _core_links(fields, found.get("links", []))
    attach = {
        name: fields.name(node, "a node", ("core", "attach", name), place=False)
        for name, node in fields.object(found.get("attach", {}), ("core", "attach")).items()
    }
    nodes = {node for link in links for node in (link.one, link.other)} or set(attach.values())
    _check_attached(fields, attach, nodes, devices, in_cloud)
    _check_tree(fields, links, nodes)
    return CloudTree(links, attach)


def _core_links(fields: PlacementFields, found: Any) -> tuple[CoreLink, ...]:
    if not isinstance(found, list):
        fields.problems.add(f"expected a list of links, not {shown(found)}", ("core", "links"))
        return ()
    links = []
    for at, link in enumerate(found):
        path: Path = ("core", "links", at)
        if not isinstance(link, list) or len(link) != 3:
            fields.problems.add(f"a core link is [node, node, weight], not {shown(link)}", path)
            continue
        one, other = (fields.name(name, "a core node", (*path, k)) for k, name in enumerate(link[:2]))
        links.append(CoreLink(one, other, fields.amount(link[2], "weight", (*path, 2))))
    return tuple(links)


def _check_attached(
    fields: PlacementFields, attach: Mapping[str, str], nodes: set[str], devices: set[str], in_cloud: frozenset[str]
) -> None:
    for name, node in attach.items():
        path = ("core", "attach", name)
        if name not in devices and name not in in_cloud:
            fields.problems.add(f'device "{name}" is unknown', path, nearest_name(name, devices))
        if node not in nodes:
            fields.problems.add(f'core node "{node}" is in no link', path, nearest_name(node, nodes))
    for name in sorted(devices - attach.keys()):
        fields.problems.add(f'device "{name}" is not attached to a core node', ("core", "attach"))
    for name in sorted(devices & nodes):
        fields.problems.add(f'"{name}" names both a device and a core node', ("core", "links"))
    if not nodes:
        fields.problems.add("the core has no nodes", ("core",), '{"links": [["n1", "n2", 1]], "attach": {"d1": "n1"}}')


def _check_tree(fields: PlacementFields, links: tuple[CoreLink, ...], nodes: set[str]) -> None:
    group = {node: node for node in nodes}

    def root(node: str) -> str:
        while group[node] != node:
            group[node] = group[group[node]]
            node = group[node]
        return node

    for at, link in enumerate(links):
        one, other = root(link.one), root(link.other)
        if one == other:
            fields.problems.add(
                f'the core is not a tree: link "{link.one}"-"{link.other}" closes a circle', ("core", "links", at)
            )
        group[one] = other
    if len({root(node) for node in nodes}) > 1:
        fields.problems.add("the core is not a tree: it falls into parts", ("core", "links"))
