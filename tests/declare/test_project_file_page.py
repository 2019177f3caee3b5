"""docs/project-file.md lists every field there is and no other, and its example has no mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.declare import project_file
from headrace.declare.build import OPERATOR_TIMES
from headrace.declare.project_file import Entry
from headrace.declare.project_text import ProjectText
from headrace.declare.read import read_text
from headrace.declare.sql import ViewText
from headrace.declare.validate import KINDS
from headrace.declare.yaml_text import read_yaml
from headrace.model.origin_types import origin_type_named
from headrace.model.type_names import type_named

PAGE = (Path(__file__).parents[2] / "docs" / "project-file.md").read_text(encoding="utf-8")
SECTIONS = {
    "The project": project_file.ProjectFields,
    "`hosts.NAME`": project_file.HostEntry,
    "`sites.NAME`": project_file.SiteEntry,
    "`links`": project_file.LinkEntry,
    "`sources.NAME`": project_file.SourceEntry,
    "`contracts.NAME`": project_file.ContractEntry,
    "`feeds.NAME`": project_file.FeedEntry,
    "`devices.NAME`": project_file.DevicesEntry,
    "`templates.NAME`": project_file.TemplateEntry,
    "`functions.NAME`": project_file.FunctionEntry,
}


def table_of(heading: str, title: str) -> list[list[str]]:
    """Rows of the first table under a heading whose first column has a title."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n#")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")
    ]
    assert rows[0][0] == title
    return rows[2:]


@pytest.mark.parametrize(("heading", "model"), SECTIONS.items(), ids=str)
def test_the_page_lists_the_fields_of_each_entry(heading: str, model: type[Entry]) -> None:
    listed = {name for row in table_of(heading, "field") for name in re.findall(r"`([^`]+)`", row[0])}
    fields = {info.alias or name for name, info in model.model_fields.items()}
    assert listed == fields | (set(KINDS) if heading == "The project" else set())


@pytest.mark.parametrize(("heading", "model"), SECTIONS.items(), ids=str)
def test_fields_without_a_default_are_said_to_be_needed(heading: str, model: type[Entry]) -> None:
    needed = {info.alias or name for name, info in model.model_fields.items() if info.is_required()}
    said = {row[0].strip("`") for row in table_of(heading, "field") if row[2] == "needed"}
    assert said == needed


def test_the_page_has_the_operator_times() -> None:
    section = PAGE.partition("| operator |")[2].partition("\n\n")[0]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in section.splitlines()[2:]]
    assert {row[0]: tuple(map(float, row[1:])) for row in rows} == {
        name: (time.fixed, time.per_in, time.per_out) for name, time in OPERATOR_TIMES.items()
    }


def is_type(name: str) -> bool:
    return type_named(name) is not None or origin_type_named(name) is not None


def test_every_type_of_the_page_is_known() -> None:
    section = PAGE.partition("### Types")[2].partition("\nSome names say more")[0]
    names = re.findall(r"`([^`]+)`", section)
    concrete = [re.sub(r"\bT\b", "int", name).replace("(p,s)", "(9,2)").replace("(n)", "(5)") for name in names]
    assert [name for name in concrete if not is_type(name)] == []


def test_the_example_of_the_page_has_no_mistakes() -> None:
    text = PAGE.partition("```yaml\n")[2].partition("```")[0]
    document, problems = read_yaml(text, "headrace.yml")
    views = {
        "english_tweets": "SELECT tid, body FROM tweets WHERE lang = 'en'",
        "nearby_friends": "SELECT x.lat FROM a.location x JOIN b.location y ON apart(x.lat, x.lng, y.lat, y.lng) < 100",
    }
    texts = {name: ViewText(name, sql, f"views/{name}.sql") for name, sql in views.items()}
    catalogue = read_text(ProjectText(".", document, texts, problems), {"US_DSN": ""})
    assert catalogue.problems == ()
