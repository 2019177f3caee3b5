"""Views over the same blocks are kept together: beside their copies, spelled otherwise, and when a copy goes."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from headrace.model.errors import EvaluationError, UnsupportedSql
from headrace.plan.canonical.blocks import blocks_of
from headrace.run.push.engine import NoAnswer
from headrace.testing import SCHEMA, Schema, queries
from tests.run.copies import (
    Project,
    Text,
    arrange,
    collected,
    keep_on_running,
    keep_together,
    meanings_of,
    spelled_otherwise,
)

TEXTS = collected()
COUNTS = "(select k, count(*) c from r group by k)"
NESTED = {
    "left": "select r.k, t.name, t.k as c from r left join (select k, name from t where k > 0) t on r.k = t.k",
    "full": "select a.k, b.n from (select k from t) a full join (select k, n from s where n > 0) b on a.k = b.k",
    "except": "select k from r except select k from s",
    "first": "select k, n from (select *, row_number() over (partition by k order by n, id) i from r) q where i <= 2",
    "self": f"select a.k, b.c from {COUNTS} a join {COUNTS} b on a.c = b.k",
}
FEW = [
    *[text for text in TEXTS if "ours" not in text.name][::4],
    *(Text(name, sql, SCHEMA) for name, sql in NESTED.items()),
    *(text for text in TEXTS if text.name == "tpch_q20"),
]
EVERY = [pytest.param(text, id=text.name) for text in TEXTS]


def names(texts: list[Text]) -> list[str]:
    return [text.name for text in texts]


@pytest.mark.parametrize("text", FEW, ids=names(FEW))
def test_a_view_is_kept_beside_its_copy_and_beside_itself_spelled_otherwise(text: Text):
    keep_together([text.sql, text.sql, spelled_otherwise(text.sql), text.sql], text.schema, seed=1)


@pytest.mark.parametrize("text", FEW, ids=names(FEW))
def test_a_view_stays_when_the_copy_goes_whose_rows_it_reads(text: Text):
    keep_on_running(text)


def test_a_view_stays_when_its_copy_comes_to_mean_something_else():
    text = "select k, count(*) as c from r group by k"
    other = "select k, sum(n) as c from r group by k"
    for changed in range(3):
        keep_on_running(Text("copied", text, SCHEMA), redefined={changed: other})
        join = "select r.k, s.label from r join s on r.k = s.k"
        keep_on_running(Text("joined", join, SCHEMA), redefined={changed: f"{join} where r.n > 1"})


def test_views_that_share_only_a_join_stay_when_one_of_them_changes():
    join = "from r join s on r.k = s.k join t on t.k = s.k"
    texts = [f"select r.id, s.label, t.x {join}", f"select s.label, count(*) as c {join} group by s.label"]
    for changed in range(2):
        arrange(texts, SCHEMA).redefine({changed: "select k from t where x > 1"}).check(seed=2)


@pytest.mark.long
@pytest.mark.parametrize("text", EVERY)
def test_every_view_is_kept_beside_its_copy(text: Text):
    if not is_kept(text.sql, text.schema, seed=1):
        pytest.skip("overflows on these rows, also alone")
    keep_together([text.sql, text.sql, spelled_otherwise(text.sql), text.sql], text.schema, seed=1)
    keep_on_running(text)


def sharing_pairs() -> Iterator[tuple[Text, Text]]:
    """All pairs that have a block in common."""
    for schema in {id(text.schema): text.schema for text in TEXTS}.values():
        readers = defaultdict(list)
        for text in TEXTS:
            if text.schema is schema:
                for block in blocks_of("v", meanings_of([text.sql], schema)["v0"]):
                    readers[block.fingerprint].append(text)
        pairs = {
            (one.name, other.name): (one, other)
            for found in readers.values()
            for number, one in enumerate(found)
            for other in found[:number]
            if one.name != other.name
        }
        yield from pairs.values()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_all_pairs_that_share_a_block_are_planned_and_kept_together():
    pairs = list(sharing_pairs())
    assert len(pairs) > 50
    for one, other in pairs:
        keep_together([one.sql, other.sql], one.schema, seed=3, batches=1)


PARTS, PROJECTS, PAIRS_OF_A_PROJECT = 40, 10, 5
"""Two thousand pairs in all. Small projects: the time to plan one grows faster than its views."""
TEXTS_OF_A_PART = 25
FIRST_SEED = 20_240_229


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(FIRST_SEED, FIRST_SEED + PARTS))
def test_fifty_random_pairs_are_kept_in_projects_of_ten_views(number: int):
    rng = random.Random(number)
    texts = [text for text in random_texts(TEXTS_OF_A_PART, number) if is_kept(text)]
    for project_number in range(PROJECTS):
        print(f"seed {number}, {len(texts)} random queries, project {project_number}")
        pairs = [rng.choice(texts) for _ in range(PAIRS_OF_A_PROJECT)]
        project = arrange([sql for text in pairs for sql in (text, spelled_otherwise(text))], SCHEMA)
        rows_seeds = range(8 * project_number, 8 * project_number + 8)
        assert any(is_right(project, rows) for rows in rows_seeds), "overflows on all rows that we tried"


def is_right(project: Project, rows_seed: int) -> bool:
    """False if some view overflows on these rows, by design; raises if one is wrong."""
    try:
        project.check(rows_seed)
    except (EvaluationError, NoAnswer):
        return False
    return True


def random_texts(count: int, number: int) -> list[str]:
    found: dict[str, None] = {}

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        found.setdefault(data.draw(queries(SCHEMA)))

    draw()
    return list(found)


def is_kept(sql: str, schema: Schema = SCHEMA, seed: int = 0) -> bool:
    """Whether a query alone is maintained on our rows: some overflow, by design."""
    try:
        return is_right(arrange([sql], schema), seed)
    except UnsupportedSql:
        return False
