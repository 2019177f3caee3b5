"""Keeps the documents true: links lead somewhere, and examples in Python and YAML can be read."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from ruamel.yaml import YAML

from tests.architecture_page import PAGE, named_paths

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "changes", "examples", "bench")
PAGES = [*sorted(ROOT.glob("*.md")), *(page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.md")))]

FENCE = re.compile(r"^ {0,3}```+ *(\S*)[^\n]*\n(.*?)^ {0,3}```+ *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def pages() -> list[pytest.ParameterSet]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES]


def prose(page: Path) -> str:
    """The text without code, in which brackets mean something else."""
    return re.sub(r"`[^`\n]*`", "`code`", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings answer to, the way they are commonly rendered."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found: list[str] = []
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return set(found)


def problem(page: Path, link: str) -> str | None:
    path, _, fragment = link.partition("#")
    target = (page.parent / unquote(path)).resolve() if path else page
    if not target.exists():
        return f"{link}: no such file"
    if not target.is_relative_to(ROOT):
        return f"{link}: leads out of the project"
    if fragment and target.suffix == ".md" and fragment not in anchors(target):
        return f"{link}: no such heading"
    return None


@pytest.mark.parametrize("page", pages())
def test_links_of_a_page_lead_somewhere(page: Path):
    links = [first or second for first, second in LINK.findall(prose(page))]
    wrong = [found for link in links if not ELSEWHERE.match(link) and (found := problem(page, link))]
    assert not wrong


@pytest.mark.parametrize("page", pages())
def test_examples_in_python_and_yaml_can_be_read(page: Path):
    for language, code in FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            compile(code, page.name, "exec")
        if language in ("yaml", "yml"):
            YAML(typ="safe").load(code)


def test_every_module_that_the_architecture_names_exists():
    places = (ROOT / "src" / "headrace", ROOT)
    paths = named_paths(PAGE.read_text())
    assert len(paths) > 80
    assert not [path for path in paths if not any((place / path).exists() for place in places)]


def test_every_decision_has_a_number_of_its_own_and_is_listed():
    folder = ROOT / "docs" / "decisions"
    records = sorted(record.name for record in folder.glob("[0-9]*.md"))
    listed = re.findall(r"^- \[(\d{4})\]\((\1-[^)]*)\)", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    assert records == [record for _, record in listed]
    assert len({number for number, _ in listed}) == len(listed)
