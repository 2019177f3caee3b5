"""Whatever the text is, reading it gives a tree, a refusal or mistakes with places, and never anything else."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.declare.query.report import OUR_FAULT
from headrace.declare.recompute import FullViewReader
from headrace.declare.sql import ViewText, read_predicate, read_query, read_views
from headrace.model.catalogue import Refusal
from headrace.model.errors import InputError, Location, Problem, UnsupportedSql
from headrace.testing import SCHEMA
from tests.declare.query.well_formed import flaws
from tests.examples import examples
from tests.queries.schemas import NEXMARK, TPCH, queries, understood

SOURCES = {**SCHEMA, **TPCH, **NEXMARK}
TOKEN = re.compile(r"\w+|'[^']*'|[<>=!|]+|\S")
TEXTS = [*understood(), *queries("tpch").values(), *queries("nexmark").values()]
QUERIES = [TOKEN.findall(re.sub(r"--.*", "", text)) for text in TEXTS]
ODDITIES = """LATERAL PIVOT ROLLUP CUBE TABLESAMPLE VALUES rand uuid interval over qualify lag session_window
array struct explode natural recursive with limit offset except all any exists [ ] { } : ? $ @ /* -- ; null true
* :: -> => try_cast 1e400 1. '' cast as map date timestamp window `a` x'1F'
99999999999999999999999999999999999999999 é \x00""".split()
TOKENS = sorted({token for query in QUERIES for token in query} | set(ODDITIES))


def check(sql: str) -> None:
    try:
        wrong = flaws(read_query(sql, SOURCES))
    except UnsupportedSql as refusal:
        wrong = [str(refusal)] if refusal.operator == OUR_FAULT else []
        wrong += [*outside(refusal.problems, sql), *outside(in_full(sql), sql)]
    except InputError as error:
        wrong = outside(error.problems, sql)
    assert not wrong


def in_full(sql: str) -> tuple[Problem, ...]:
    """What is wrong with a refused query as one that is recomputed."""
    texts = {"query": ViewText("query", sql, "query.sql")}
    views, _ = read_views(texts, SOURCES, {})
    try:
        found = FullViewReader(texts, SOURCES, {}).recomputed(views["query"])
    except InputError as error:
        return error.problems
    return found.problems if isinstance(found, Refusal) else ()


def outside(problems: Iterable[Problem], sql: str) -> list[str]:
    return [str(problem) for problem in problems if not _is_inside(problem.where, sql)]


def _is_inside(where: Location | None, sql: str) -> bool:
    lines = sql.split("\n")
    return where is not None and 1 <= where.line <= len(lines) and 1 <= where.column <= len(lines[where.line - 1]) + 1


@given(st.text(max_size=60))
def test_any_text_is_read_or_reported(text: str):
    check(text)
    check(f"SELECT {text} FROM r")


@given(st.lists(st.sampled_from(TOKENS), max_size=25))
def test_any_words_of_sql_are_read_or_reported(words: list[str]):
    check(" ".join(words))
    check(f"SELECT k FROM r WHERE {' '.join(words)}")


@st.composite
def changed_queries(draw: st.DrawFn) -> str:
    """A valid query with a few tokens left out, replaced, added, or taken from another query."""
    words = list(draw(st.sampled_from(QUERIES)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(words)))
        length = draw(st.sampled_from((0, 0, 1, 1, 3)))
        other = draw(st.sampled_from(QUERIES))
        start = draw(st.integers(0, len(other) - 1))
        inserted = draw(
            st.sampled_from(
                (
                    [],
                    [draw(st.sampled_from(TOKENS))],
                    other[start : start + draw(st.integers(1, 9))],
                    ["(", *other, ")"],
                )
            )
        )
        words[at : at + length] = inserted
    return " ".join(words)


@settings(max_examples=examples(300))
@given(changed_queries())
def test_any_change_of_a_valid_query_is_read_or_reported(sql: str):
    check(sql)


@given(st.lists(st.sampled_from(TOKENS), max_size=12))
def test_any_predicate_is_read_or_reported(words: list[str]):
    with contextlib.suppress(InputError):
        read_predicate(" ".join(words), Location("headrace.yml", 3, 9), SCHEMA["r"])
