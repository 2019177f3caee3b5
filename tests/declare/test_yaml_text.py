from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.declare.yaml_text import read_yaml
from headrace.model.errors import Location


def test_every_key_and_value_has_its_place() -> None:
    document, problems = read_yaml("sites:\n  us: {cpu: 1, cores: }\nlinks:\n  - from: us\n", "f.yml")
    assert problems == ()
    assert document is not None
    assert document.value == {"sites": {"us": {"cpu": 1, "cores": None}}, "links": [{"from": "us"}]}
    assert document.key_at(("sites", "us")) == Location("f.yml", 2, 3)
    assert document.value_at(("sites", "us")) == Location("f.yml", 2, 7)
    assert document.value_at(("sites", "us", "cpu")) == Location("f.yml", 2, 13)
    assert document.value_at(("links", 0, "from")) == Location("f.yml", 4, 11)


def test_an_empty_value_is_placed_at_its_key() -> None:
    document, _ = read_yaml("a:\n\n\nb: 1\n", "f.yml")
    assert document is not None
    assert document.value_at(("a",)) == Location("f.yml", 1, 1)


def test_a_path_that_is_not_there_has_the_place_of_its_parent() -> None:
    document, _ = read_yaml("a: {b: 1}\n", "f.yml")
    assert document is not None
    assert document.value_at(("a", "c", "d")) == Location("f.yml", 1, 4)
    assert document.value_at(("z",)) == Location("f.yml")


def test_words_are_text_as_in_yaml_1_2() -> None:
    document, _ = read_yaml("a: no\nb: 1e6\nc: 1_000\nd: 0x10\ne: 2020-01-01\nf: true\ng: ~\nno: 007\nh: -3\n", "f.yml")
    assert document is not None
    assert document.value == {
        "a": "no",
        "b": 1e6,
        "c": 1000,
        "d": 16,
        "e": "2020-01-01",
        "f": True,
        "g": None,
        "no": 7,
        "h": -3,
    }


def test_a_key_written_twice_is_a_mistake_and_the_first_counts() -> None:
    document, problems = read_yaml("a: 1\nb: 2\na: 3\n", "f.yml")
    assert document is not None
    assert document.value == {"a": 1, "b": 2}
    assert [(p.message, str(p.where), p.hint) for p in problems] == [
        ('"a" is written twice', "f.yml:3:1", "the first is on line 1; keep one")
    ]


def test_fields_can_be_taken_over_from_an_anchor() -> None:
    document, problems = read_yaml("d: &d {x: 1, y: 2}\ne: {x: 3, <<: *d}\nf: {<<: *d}\n", "f.yml")
    assert problems == ()
    assert document is not None
    assert document.value["e"] == {"x": 3, "y": 2}
    assert document.value["f"] == {"x": 1, "y": 2}
    assert document.value_at(("e", "y")) == Location("f.yml", 1, 17)


def test_an_alias_stands_for_the_last_value_of_its_name() -> None:
    document, problems = read_yaml("a: &x 1\nb: *x\nc: &x 2\nd: *x\n", "f.yml")
    assert problems == ()
    assert document is not None
    assert document.value == {"a": 1, "b": 1, "c": 2, "d": 2}


@pytest.mark.parametrize(
    ("text", "message", "place", "hint"),
    [
        ("a: [1, 2\nb: 3\n", "a list that is not closed (begun on line 1)", "2:2", "close the list with ]"),
        ("a: {b: 1\n", "braces that are not closed", "2:1", "close with }"),
        ("a: b: c\n", 'a ":" where no field can begin', "1:5", "quote"),
        ("a:\n\tb: 1\n", "a tab where only spaces may indent", "2:1", "indent with spaces"),
        ("a: 1\n  b: 2\n", 'a ":" where no field can begin', "2:4", "indent"),
        ("a:\n  b: 1\n c: 2\n", "a line that does not fit the indentation above it", "3:2", "indent like"),
        ('a: "x\n', "quotes that are not closed", "2:1", "close the quotes"),
        ("a: *x\n", "an alias (`*name`) of nothing", "1:4", "`&name`"),
        ("a: @x\n", "a character that no value begins with", "1:4", "quotes"),
        ("--- {}\n--- {}\n", "a second document", "2:1", "one document"),
        ("s: {dsn: ${X}}\n", "braces that are not closed", "1:11", 'put "${NAME}" in quotes'),
        ("a: 1\nb: \x00\n", "a character that text may not hold", "2:4", "UTF-8"),
    ],
)
def test_yaml_that_is_not_valid_is_told_in_plain_words(text: str, message: str, place: str, hint: str) -> None:
    document, (problem,) = read_yaml(text, "f.yml")
    assert document is None
    assert problem.message.startswith(f"not valid YAML: {message}")
    assert str(problem.where) == f"f.yml:{place}"
    assert hint in (problem.hint or "")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: numeric(12,2), b: int}", {"a": "numeric(12,2)", "b": "int"}),
        ("{a: {type: decimal(12, 2), width: 8}}", {"a": {"type": "decimal(12,2)", "width": 8}}),
        ("[numeric(12,2), int]", ["numeric(12,2)", "int"]),
    ],
)
def test_a_type_that_is_cut_at_its_comma_is_one_mistake_that_says_how_to_write_it(text: str, value: object) -> None:
    document, problems = read_yaml(f"columns: {text}\n", "f.yml")
    assert document is not None
    assert document.value["columns"] == value
    (problem,) = problems
    assert problem.message.startswith(("numeric(12,2) is cut", "decimal(12,2) is cut"))
    assert problem.hint in ('put it in quotes: "numeric(12,2)"', 'put it in quotes: "decimal(12,2)"')
    quoted, none = read_yaml('columns: {a: "numeric(12,2)", b: int}\n', "f.yml")
    assert not none
    assert quoted is not None


ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.yml is empty"),
        ("# only a comment\n", "f.yml is empty"),
        ("- 1\n", "f.yml must hold fields, not a list or text"),
        ("hello\n", "f.yml must hold fields, not a list or text"),
        ("a: &a [*a]\n", "the text is nested too deeply"),
        ("a: &a {b: *a, <<: *a}\n", "the text is nested too deeply"),
        ("[" * 5000, "the text is nested too deeply"),
        ("a: " + "[" * 50 + "]" * 50, "the text is nested too deeply"),
        (ALIASES, "the text is too large"),
    ],
)
def test_what_is_no_project_is_one_mistake(text: str, message: str) -> None:
    document, problems = read_yaml(text, "f.yml")
    assert document is None
    assert [problem.message for problem in problems] == [message]


@pytest.mark.parametrize("text", ["? [a]\n: 1\n", "a: !python/object x\n", 'a: "\\ud800"\n', "<<: 3\n", "a: !!map x\n"])
def test_odd_yaml_is_a_mistake_at_its_place(text: str) -> None:
    _, problems = read_yaml(text, "f.yml")
    assert len(problems) == 1
    assert problems[0].where is not None


PIECES = (
    "a",
    "b: ",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "&x ",
    "*x",
    "<<: *x",
    "!!int ",
    '"',
    "'",
    "\n",
    "\n  ",
    "#",
    "|",
    "~",
    "1e5",
)


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)))
def test_any_text_is_a_document_or_a_mistake(text: str) -> None:
    document, problems = read_yaml(text, "f.yml")
    assert document is not None or problems
    for problem in problems:
        assert problem.where is not None
