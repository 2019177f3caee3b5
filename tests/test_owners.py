"""State that changes has one owner: a module changes only attributes of classes that it defines itself.

Threads of a service share frozen values and queues. What is not frozen is changed by the module that defines it, and
others call its methods: whoever looks for what changes a state finds all of it in one file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import TypeGuard

import pytest

from tests.test_imports import MODULES, area

CHANGING = frozenset(
    ("add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update")
)
"""Methods that change a list, a dict or a set."""
SHARED = [module for module in MODULES if area(module) in ("site", "coordinate", "app", "doors")]
"""Modules whose objects several threads use."""


def targets(tree: ast.AST) -> Iterator[ast.expr]:
    """What is assigned to, deleted or changed, a part of it included: `a.b = 1`, `a.b[c] += 1`, `a.b.append(1)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=found) | ast.Delete(targets=found):
                yield from map(whole, flat(found))
            case ast.AugAssign(target=one) | ast.AnnAssign(target=one) | ast.For(target=one):
                yield from map(whole, flat([one]))
            case ast.withitem(optional_vars=ast.expr() as one):
                yield from map(whole, flat([one]))
            case ast.Call(func=ast.Attribute(value=one, attr=name)) if name in CHANGING:
                yield whole(one)


def flat(found: list[ast.expr]) -> Iterator[ast.expr]:
    for one in found:
        match one:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                yield from flat(parts)
            case ast.Starred(value=inner):
                yield inner
            case _:
                yield one


def whole(target: ast.expr) -> ast.expr:
    return whole(target.value) if isinstance(target, ast.Subscript) else target


def is_of_self(target: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"


def attributes(tree: ast.AST) -> Iterator[str]:
    """Names of attributes of the classes that a module defines."""
    for class_ in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in class_.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id
        yield from (target.attr for target in targets(class_) if is_of_self(target))


def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def own_attributes() -> dict[str, frozenset[str]]:
    """Attributes by module. Trees are not kept: each process that runs tests would hold hundreds of megabytes."""
    return {module: frozenset(attributes(tree_of(module))) for module in MODULES}


@cache
def our_attributes() -> frozenset[str]:
    """Libraries have other attributes, such as `daemon` of a thread."""
    return frozenset().union(*own_attributes().values())


def libraries(tree: ast.AST) -> frozenset[str]:
    """Names of modules that a module imports whole: `sys.path` is nothing of ours."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import))
    return frozenset(alias.asname or alias.name for node in imports for alias in node.names)


def foreign(tree: ast.AST, own: frozenset[str]) -> list[str]:
    imported = libraries(tree)
    return [
        f"line {target.lineno}: {ast.unparse(target)}"
        for target in targets(tree)
        if isinstance(target, ast.Attribute) and not is_of_self(target) and target.attr in our_attributes() - own
        if not (isinstance(target.value, ast.Name) and target.value.id in imported)
    ]


@pytest.mark.parametrize("module", SHARED)
def test_a_module_changes_only_attributes_of_its_own_classes(module: str):
    assert foreign(tree_of(module), own_attributes()[module]) == [], "call a method of the class that has the attribute"


@pytest.mark.parametrize(
    "statement",
    [
        "service.pushes += 1",
        "service.rounds.state = None",
        "service.unloaded['a'] = 'b'",
        "del service.rounds.counts['a']",
        "x, service.rounds.scheduler = 1, 2",
        "self.service.stop = None",
        "service.rounds.scheduler.pending.update(a=1)",
        "service.accounts.pushes['a'].append(1)",
        "service.rounds.scheduler.suspects.add('a')",
        "before = service.accounts.sent.pop('a')",
    ],
)
def test_a_change_of_what_another_module_owns_is_found(statement: str):
    assert len(foreign(ast.parse(statement), frozenset())) == 1
