"""The core of an instance: a tree of Cloud nodes, and where devices and sources are attached to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.model.errors import nearest_name
from headrace.plan.exact_json import Path, show_value
from headrace.plan.place.fields import PlacementFields
from headrace.plan.place.instance import CloudTree, CoreLink


def read_core(fields: PlacementFields, devices: set[str], in_cloud: frozenset[str]) -> CloudTree | None:
    found = fields.document.get("core")
    if found is None:
        return None
    found = fields.fields(found, ("core",), "the core", ("links", "attach"))
    links = _core_links(fields, found.get("links", []))
    attach = {
        name: fields.name(node, ("core", "attach", name), "a node", place=False)
        for name, node in fields.members(found.get("attach", {}), ("core", "attach"), '"attach"').items()
    }
    nodes = {node for link in links for node in (link.one, link.other)} or set(attach.values())
    _check_attached(fields, attach, nodes, devices, in_cloud)
    _check_tree(fields, links, nodes)
    return CloudTree(links, attach)


def _core_links(fields: PlacementFields, found: Any) -> tuple[CoreLink, ...]:
    links = []
    for at, link in enumerate(fields.items(found, ("core", "links"), '"links"')):
        path: Path = ("core", "links", at)
        if not isinstance(link, list) or len(link) != 3:
            fields.wrong(path, f"a core link is [node, node, weight], not {show_value(link)}")
            continue
        one, other = (fields.name(name, (*path, k), "a core node") for k, name in enumerate(link[:2]))
        links.append(CoreLink(one, other, fields.number(link[2], (*path, 2), "weight")))
    return tuple(links)


def _check_attached(
    fields: PlacementFields, attach: Mapping[str, str], nodes: set[str], devices: set[str], in_cloud: frozenset[str]
) -> None:
    for name, node in attach.items():
        path = ("core", "attach", name)
        if name not in devices and name not in in_cloud:
            fields.wrong(path, f'device "{name}" is unknown', nearest_name(name, devices))
        if node not in nodes:
            fields.wrong(path, f'core node "{node}" is in no link', nearest_name(node, nodes))
    for name in sorted(devices - attach.keys()):
        fields.wrong(("core", "attach"), f'device "{name}" is not attached to a core node')
    for name in sorted(devices & nodes):
        fields.wrong(("core", "links"), f'"{name}" names both a device and a core node')
    if not nodes:
        fields.wrong(("core",), "the core has no nodes", '{"links": [["n1", "n2", 1]], "attach": {"d1": "n1"}}')


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
            fields.wrong(
                ("core", "links", at), f'the core is not a tree: link "{link.one}"-"{link.other}" closes a circle'
            )
        group[one] = other
    if len({root(node) for node in nodes}) > 1:
        fields.wrong(("core", "links"), "the core is not a tree: it falls into parts")
