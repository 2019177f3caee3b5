"""Keeps names findable and docstrings readable by themselves, by reading every module.

A class that is searched for by its name is found in one place. A docstring is read without what stands above it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
FOR_APPS = "headrace_device/"
"""What apps of devices import is called as they call it: a device is a `Device` there."""


@pytest.fixture(scope="module")
def trees() -> Mapping[str, ast.Module]:
    files = sorted(SOURCE.rglob("*.py"))
    return {str(file.relative_to(SOURCE)): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def places_of_classes(trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    for file, tree in ((file, tree) for file, tree in trees.items() if not file.startswith(FOR_APPS)):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, f"{file}:{node.lineno}"


def classes_defined_twice(trees: Mapping[str, ast.Module]) -> Mapping[str, list[str]]:
    places = defaultdict(list)
    for name, place in places_of_classes(trees):
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_a_class_name_is_defined_in_one_module_only(trees: Mapping[str, ast.Module]):
    assert not classes_defined_twice(trees), "say in each name what its class is, so that a name finds one class"


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


def test_a_docstring_means_something_by_itself(trees: Mapping[str, ast.Module]):
    assert not leaning_docstrings(trees), "say what it is or does: not `Of a contract.` but `The lag of a contract.`"


@pytest.mark.parametrize("opening", ["Of a contract that runs.", "The same for a view.", "By vertex."])
def test_a_docstring_that_leans_on_its_name_is_found(opening: str):
    assert leaning_docstrings({"one.py": ast.parse(f'def lag():\n    """{opening}"""')}) == [f"one.py:1 lag: {opening}"]


AREAS = sorted(
    folder.name for folder in (SOURCE / "headrace").iterdir() if folder.is_dir() and folder.name.isidentifier()
)
MENTION = re.compile(rf"`((?:{'|'.join(AREAS)})(?:\.[a-z_]+)+)`")


def is_there(mention: str) -> bool:
    """Whether `run.views.view` is a module or a folder of them; or `run.views` is one that has a `view`."""
    place = SOURCE / "headrace" / Path(*mention.split("."))
    holder = place.parent.with_suffix(".py")
    return (
        place.is_dir() or place.with_suffix(".py").is_file() or (holder.is_file() and place.name in holder.read_text())
    )


def test_modules_that_are_mentioned_exist():
    mentions = ((file, mention) for file in SOURCE.rglob("*.py") for mention in MENTION.findall(file.read_text()))
    gone = [f"{file.relative_to(SOURCE)}: {mention}" for file, mention in mentions if not is_there(mention)]
    assert not gone, "a module was moved or renamed: say where it is now"


def test_a_mention_of_a_module_that_is_gone_is_found():
    assert is_there("meaning.evaluate") and is_there("run.ports.Ledger") and is_there("plan.search")
    assert not is_there("run.evaluate") and not is_there("run.ports.Nothing")
