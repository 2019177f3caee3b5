"""Whatever stands in a project file, the answer is a catalogue or a list of mistakes, each with its place."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from headrace.declare.project_text import ProjectText
from headrace.declare.read import read_text
from headrace.declare.starter import FILES
from headrace.declare.yaml_text import read_yaml
from headrace.model.errors import InputError

FULL = (Path(__file__).parent / "full.yml").read_text(encoding="utf-8")
"""A project that uses every field."""

WORDS = (
    *("project", "sites", "links", "sources", "contracts", "feeds", "devices", "templates", "functions", "selectivity"),
    *(
        "us",
        "eu",
        "orders",
        "id",
        "kind",
        "table",
        "stream",
        "at",
        "key",
        "columns",
        "rows",
        "rate",
        "view",
        "freshness",
    ),
    *("between", "from", "to", "postgres", "dsn", "deliver", "delta", "stays", "type", "bigint", "time", "headroom"),
    *("30 s", "100 Mbps", "-1", "0", "1e400", ".nan", "null", "true", "${X}", "{}", "[]", "a.b", "\u00e9", ""),
)
SCALARS = st.one_of(st.sampled_from(WORDS), st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=5))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(WORDS), inner, max_size=5)),
    max_leaves=20,
)


def read_anything(text: str) -> None:
    document, problems = read_yaml(text, "headrace.yml")
    try:
        read_text(ProjectText(".", document, {}, problems), {})
    except InputError as error:
        for problem in error.problems:
            assert problem.where is not None
            assert problem.message
            str(problem).encode("utf-8", "backslashreplace")


@given(st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=8))
def test_any_yaml_gives_a_catalogue_or_mistakes(value: dict[str, object]) -> None:
    text = io.StringIO()
    YAML(typ="safe", pure=True).dump(value, text)
    read_anything(text.getvalue())


@given(
    st.sampled_from([FULL, FILES["headrace.yml"]]),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 12), st.one_of(st.sampled_from(WORDS), st.text(max_size=3))),
        max_size=6,
    ),
)
def test_any_change_of_a_project_gives_a_catalogue_or_mistakes(text: str, edits: list[tuple[float, int, str]]) -> None:
    for where, removed, added in edits:
        start = int(where * len(text))
        text = text[:start] + added + text[start + removed :]
    read_anything(text)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_any_value_replaced_by_another_gives_a_catalogue_or_mistakes(data: st.DataObject) -> None:
    value = YAML(typ="safe", pure=True).load(FULL)
    for _ in range(data.draw(st.integers(1, 3))):
        _replace_one(value, data)
    text = io.StringIO()
    YAML(typ="safe", pure=True).dump(value, text)
    read_anything(text.getvalue())


def _replace_one(value: object, data: st.DataObject) -> None:
    """Walk down at random and put something else there."""
    while isinstance(value, dict | list) and value:
        key = data.draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
        inner = value[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.integers(0, 3)) == 0:
            value[key] = data.draw(VALUES)
            return
        value = inner


def test_the_project_with_every_field_has_no_mistakes(tmp_path: Path) -> None:
    document, problems = read_yaml(FULL, "full.yml")
    assert problems == ()
    with pytest.raises(InputError) as caught:
        read_text(ProjectText(str(tmp_path), document, {}, ()), {"US_DSN": "", "EU_DSN": ""})
    assert {problem.message.partition(",")[0] for problem in caught.value.problems} == {
        'contract "nearby" names view "nearby_tweets"',
        'template "nearby_friends" names view "nearby_friends"',
    }
