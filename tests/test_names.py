"""Keeps names findable and docstrings readable by themselves, by reading every module.

A class that is searched for by its name is found in one place. A docstring is read without what stands above it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

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


LEANS = (
    "of",
    "from",
    "to",
    "for",
    "with",
    "without",
    "by",
    "at",
    "in",
    "on",
    "as",
    "after",
    "before",
    "until",
    "since",
)
"""First words of a docstring that leans on the name above it: "Of a contract that runs." says nothing by itself."""


def leans_on_its_name(docstring: str) -> bool:
    return docstring.split()[0].lower() in LEANS or docstring.lower().startswith("the same")


def leaning_docstrings(trees: Mapping[str, ast.Module]) -> list[str]:
    return [
        f"{file}:{node.lineno} {node.name}: {docstring.splitlines()[0]}"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and (docstring := ast.get_docstring(node))
        and leans_on_its_name(docstring)
    ]


def test_a_docstring_means_something_by_itself():
    assert not leaning_docstrings(TREES), "say what it is or does: not `Of a contract.` but `The lag of a contract.`"


@pytest.mark.parametrize("opening", ["Of a contract that runs.", "The same for a view.", "By vertex."])
def test_a_docstring_that_leans_on_its_name_is_found(opening: str):
    assert leaning_docstrings({"one.py": ast.parse(f'def lag():\n    """{opening}"""')}) == [f"one.py:1 lag: {opening}"]
