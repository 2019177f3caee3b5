"""Whatever people post, a store can hold it: PostgreSQL is asked."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.run.feeds.texts import write_json
from tests.examples import examples

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def session(postgres_dsn: str) -> Any:
    with psycopg.connect(postgres_dsn, autocommit=True) as opened:
        yield opened


def is_held(session: psycopg.Connection, text: str) -> Any:
    row = session.execute("SELECT %s::jsonb", [text]).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.live
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(VALUES)
@example("\x00")
@example("half \ud800")
@example({"\x00": [float("nan"), float("-inf")]})
def test_every_value_can_be_stored(session: psycopg.Connection, value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()):
        is_held(session, write_json(text))


@pytest.mark.live
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(st.characters(codec="utf-8")))
@example("1e400000")
@example("[" * 5000)
@example("9" * 400)
@example('{"a": 1e999}')
def test_every_text_can_be_stored(session: psycopg.Connection, text: str) -> None:
    is_held(session, write_json(text))


def test_json_stays_as_it_is_and_other_text_is_text() -> None:
    assert write_json('{"a": [1, 2.50]}') == '{"a": [1, 2.50]}'
    assert write_json("hello") == '"hello"'
    assert write_json(None) == write_json("") == "null"
