"""JSON that loses nothing: exact numbers, and every mistake at its place."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.model.errors import InputError
from headrace.plan.exact_json import place_of, read_json


def mistakes(text: str) -> list[str]:
    with pytest.raises(InputError) as raised:
        read_json(text, "f.json")
    return [f"{problem.message} at {problem.where}" for problem in raised.value.problems]


def test_numbers_come_as_they_are_written():
    assert read_json("[1, 0.10000000000000000000001, 1e3]", "f") == [1, Decimal("0.10000000000000000000001"), 1000]


def test_places_are_found_in_any_layout():
    text = '\n{ "a" : [ 1 , { "b\\"" : [ ] , "c" : "x]" } ] ,\t"d" : {} , "e" : [ [ 2 ] , null ] }'
    for path, token in [
        (("a", 0), "1"),
        (("a", 1, 'b"'), "["),
        (("a", 1, "c"), '"x]"'),
        (("e", 0, 0), "2"),
        (("e", 1), "null"),
    ]:
        where = place_of(text, "f", path)
        assert text.splitlines()[where.line - 1][where.column - 1 :].startswith(token)


def test_every_key_that_is_written_twice_is_shown_where_it_is_written_again():
    text = '{"x": {"a": 1,\n "a": 2}, "y": [{"b": 1, "c": 2,\n "b": 3}]}'
    assert mistakes(text) == ['"a" is written twice at f.json:2:2', '"b" is written twice at f.json:3:2']


@pytest.mark.parametrize(
    ("text", "half"),
    [(r'["\ud800"]', r"\ud800"), (r'["\udc00"]', r"\udc00"), (r'["x\ud83d\ude00\ud83d."]', r"\ud83d")],
)
def test_half_a_character_is_refused_because_no_answer_could_name_it(text: str, half: str):
    assert mistakes(text)[0].startswith(f'"{half}" is half a character at f.json:1:')


@pytest.mark.parametrize("text", [r'["\ud83d\ude00"]', r'["\\ud800"]', r'["\u00e9"]'])
def test_whole_characters_and_escaped_backslashes_are_text(text: str):
    assert read_json(text, "f")
