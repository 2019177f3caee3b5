"""Keeps names findable, by reading every module: a class that is searched for by its name is found in one place."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
TREES = {
    str(file.relative_to(SOURCE)): ast.parse(file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.py"))
}


def places_of_classes(trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, f"{file}:{node.lineno}"


def classes_defined_twice(trees: Mapping[str, ast.Module]) -> Mapping[str, list[str]]:
    places = defaultdict(list)
    for name, place in places_of_classes(trees):
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_a_class_name_is_defined_in_one_module_only():
    assert not classes_defined_twice(TREES), "say in each name what its class is, so that a name finds one class"


def test_a_class_name_that_two_modules_define_is_found():
    twice = {"one.py": ast.parse("class Step: ..."), "two.py": ast.parse("class Step: ...\nclass Other: ...")}
    assert classes_defined_twice(twice) == {"Step": ["one.py:1", "two.py:1"]}
