"""docs/sql.md says what the code does: it is made from a text and the lists that the code itself uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from headrace.declare.constructs import CONSTRUCTS
from headrace.declare.constructs.construct import TABLES
from headrace.declare.query.calls import ALIASES, CASTS, NOT_BY_NAME, REWRITES
from headrace.declare.query.report import REFUSALS
from headrace.declare.recompute import ANY_ORDER, FullViewReader
from headrace.declare.sql import ViewText, read_views
from headrace.meaning.function import Function
from headrace.meaning.functions import FUNCTION_GROUPS, FUNCTIONS
from headrace.meaning.json_functions import ONLY_OURS
from headrace.model.catalogue import Refusal, Source
from tests.golden import check_golden
from tests.queries.schemas import NEXMARK, TPCH, queries

TEXT = Path(__file__).with_name("sql_page.md")
OPERATORS = ("and", "or", "case", "cast", "negate", "is_null", "in")
WITHOUT_NAME = (ONLY_OURS | frozenset(NOT_BY_NAME)) - frozenset(OPERATORS)
"""Functions that have a syntax and no name that anybody could write."""
PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    head = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return "\n".join((*head, *(f"| {' | '.join(row)} |" for row in rows)))


def constructs() -> str:
    """A table for each section, and below it the examples by number, which would be too wide for the table."""
    parts = []
    for title, section in CONSTRUCTS.items():
        rows = [(f"{n}. {one.name}", one.kept, one.state, one.cost) for n, one in enumerate(section, 1)]
        examples = "\n".join(f"-- {n}\n{one.example};" for n, one in enumerate(section, 1))
        parts.append(
            f"### {title}\n\n{table(('', 'refresh', 'state', 'cost per change'), rows)}\n\n```sql\n{examples}\n```"
        )
    return "\n\n".join(parts)


def sample_tables() -> str:
    rows = [
        (f"`{name}`", ", ".join(f"`{c}` {type_}" for c, type_ in columns.items())) for name, columns in TABLES.items()
    ]
    return table(("table", "columns"), rows)


def functions() -> str:
    rows = [
        (group, ", ".join(described(member) for member in members if member.name not in WITHOUT_NAME))
        for group, members in FUNCTION_GROUPS.items()
    ]
    casts = ", ".join(f"`{name}`" for name in sorted(CASTS))
    rewritten = ", ".join(f"`{name}`" for name in sorted(REWRITES) if name not in FUNCTIONS)
    return table(("", "functions"), [*rows, ("by other means", rewritten), ("casts", casts)])


def described(function: Function) -> str:
    if not function.name.isidentifier():
        return f"`{function.name}`".replace("|", "\\|")
    others = sorted(alias for alias, name in ALIASES.items() if name == function.name)
    return f"`{function.name}`" + (f" ({', '.join(f'`{other}`' for other in others)})" if others else "")


def benchmark(name: str, sources: Mapping[str, Source]) -> str:
    rows = []
    understood = 0
    for query, sql in queries(name).items():
        title = sql.partition("\n")[0].removeprefix("-- ")
        answer = state(sql, sources)
        understood += answer == "maintained"
        rows.append((query, title, answer))
    return f"{understood} of {len(rows)} queries are maintained.\n\n" + table(("query", "", ""), rows)


def state(sql: str, sources: Mapping[str, Source]) -> str:
    texts = {"query": ViewText("query", sql, "query.sql")}
    views, problems = read_views(texts, sources, {})
    assert not problems
    if not isinstance(views["query"].query, Refusal):
        return "maintained"
    in_full = FullViewReader(texts, sources, {}).recomputed(views["query"])
    how = f"nor recomputed: {in_full.operator}" if isinstance(in_full, Refusal) else "recomputed in full if asked for"
    return f"refused: {views['query'].query.operator}; {how}"


def test_the_page_is_made_from_what_the_code_does():
    text = TEXT.read_text(encoding="utf-8")
    made = {
        "constructs": constructs(),
        "tables": sample_tables(),
        "functions": functions(),
        "refusals": table(("operator", "what to write instead"), REFUSALS.items()),
        "any_order": ", ".join(f"`{name}`" for name in sorted(ANY_ORDER)),
        "tpch": benchmark("tpch", TPCH),
        "nexmark": benchmark("nexmark", NEXMARK),
    }
    for name, part in made.items():
        text = text.replace("{" + name + "}", part)
    check_golden(PAGE, text)
