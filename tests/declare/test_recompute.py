"""What a contract with `refresh: full` makes of a view: a text over sources, its columns, or a refusal by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.declare.read import read_project
from headrace.model.catalogue import Catalogue, Refusal
from headrace.model.errors import InputError
from headrace.model.full_query import FullQuery
from headrace.model.names import find_wrong_name, name_of_view

PROJECT = """
project: p
sites: {us: {}}
sources:
  t: {kind: table, at: us, key: [id], columns: {id: bigint, n: int, money: "decimal(10,2)", x: double, at: timestamp,
    s: string}}
  u: {kind: table, at: us, key: [id], columns: {id: bigint, k: int}}
functions: {twice: {python: "m:twice", arguments: [int], returns: int, deterministic: true}}
contracts:
"""


def project(folder: Path, contracts: str = "  c: {view: v, at: us, freshness: 1 h, refresh: full}", **views: str):
    (folder / "views").mkdir(exist_ok=True)
    (folder / "headrace.yml").write_text(PROJECT + contracts)
    for name, sql in views.items():
        (folder / "views" / f"{name}.sql").write_text(sql)
    return read_project(folder, {})


def recomputed(catalogue: Catalogue, view: str = "v") -> FullQuery:
    found = catalogue.views[view].recomputed
    assert isinstance(found, FullQuery), found
    return found


def columns(query: FullQuery) -> dict[str, str]:
    return {field.name: str(field.type) for field in query.fields}


def test_a_view_is_recomputed_only_where_a_contract_asks_for_it(tmp_path: Path):
    catalogue = project(tmp_path, v="SELECT id, sum(n) OVER (ORDER BY id) AS total FROM w", w="SELECT * FROM t")
    assert columns(recomputed(catalogue)) == {"id": "bigint", "total": "bigint"}
    assert catalogue.views["w"].recomputed is None


def test_sql_that_is_maintained_keeps_its_meaning(tmp_path: Path):
    query = recomputed(project(tmp_path, v="SELECT n, count(*) AS c FROM t GROUP BY n"))
    assert query.query is not None
    assert not query.reads_time
    assert recomputed(project(tmp_path, v="SELECT id FROM t WHERE at > now() - INTERVAL '1' DAY")).reads_time
    assert recomputed(project(tmp_path, v="SELECT id FROM TUMBLE(t, at, INTERVAL '1' HOUR)")).reads == ("t",)
    assert recomputed(project(tmp_path, v="SELECT id, now() - INTERVAL '1' DAY AS yesterday FROM t")).reads_time


def test_views_are_written_out_under_their_own_names(tmp_path: Path):
    query = recomputed(
        project(
            tmp_path,
            v="WITH t AS (SELECT id FROM u)\nSELECT T.id, inner_view.r FROM t JOIN Inner_View ON t.id = inner_view.id;",
            inner_view="-- ranks\nSELECT id, rank() OVER (ORDER BY x) AS r FROM T AS a -- all of them",
        )
    )
    assert query.reads == ("t", "u")
    assert query.sql == (
        "WITH t AS (SELECT id FROM `source:u` AS `u`)\nSELECT T.id, inner_view.r FROM t JOIN (\n"
        "SELECT id, rank() OVER (ORDER BY x) AS r FROM `source:t` AS a\n) AS `Inner_View` ON t.id = inner_view.id"
    )


def test_columns_of_one_name_have_numbers_in_the_text_of_those_who_read_them(tmp_path: Path):
    query = recomputed(
        project(
            tmp_path,
            v="SELECT id_3, id_2 FROM w",
            w="SELECT t.id AS id_2, u.id, t.id, CAST(typeof(t.id) AS string) AS h FROM t, u",
        )
    )
    assert [field.name for field in query.fields] == ["id_3", "id_2"]
    assert ") AS named(`id_2`, `id`, `id_3`, `h`)) AS `w`" in query.sql


def test_a_name_of_with_is_a_source_inside_its_own_query(tmp_path: Path):
    query = recomputed(project(tmp_path, v="WITH t AS (SELECT * FROM t) SELECT id, max(n) OVER () AS m FROM t"))
    assert query.sql == "WITH t AS (SELECT * FROM `source:t` AS `t`) SELECT id, max(n) OVER () AS m FROM t"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT *, rank() OVER (ORDER BY x) FROM u JOIN t USING (id)", "rank_over_order_by_x"),
        ("SELECT id, lag(s) IGNORE NULLS OVER (ORDER BY id) AS l FROM t", "l"),
        ("SELECT avg(money) OVER () + 1 AS a, a * 2 AS b FROM t", "b"),
        ("SELECT s AS a, (SELECT max(k) FROM u WHERE u.id < t.id) AS m FROM t", "m"),
        ("SELECT n, sum(count(*)) OVER (ORDER BY n) AS c FROM t GROUP BY n", "c"),
        (
            "SELECT id, (SELECT max(k + t.n) FROM u) AS m, CASE WHEN EXISTS (SELECT 1 FROM u) THEN 1 END AS e FROM t",
            "m",
        ),
        ("SELECT n, max(CASE WHEN id IN (SELECT id FROM u) THEN x END) AS c, stddev(x) AS d FROM t GROUP BY n", "d"),
        ("SELECT n FROM t UNION ALL SELECT id FROM u EXCEPT ALL SELECT k FROM u", "n"),
    ],
)
def test_columns_have_names_and_types(text: str, expected: str, tmp_path: Path):
    assert expected in columns(recomputed(project(tmp_path, v=text)))


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("SELECT n, now() AS t, try_avg(x) AS r FROM t GROUP BY n", "now()"),
        ("SELECT id, regr_count(x, id) OVER (ORDER BY x) AS r FROM t WHERE at > now() - INTERVAL '1' DAY", "now()"),
        ("SELECT id, random() AS r FROM t", "nondeterministic function: random"),
        ("SELECT id, uuid() AS r FROM t", "nondeterministic function: uuid"),
        ("SELECT id, regr_count(x, id) OVER (ORDER BY x) AS r FROM t ORDER BY 'x' LIMIT 3", "limit without order by"),
        ("SELECT id, at - at AS d FROM t", "interval column"),
        ("SELECT window, stddev(x) AS s FROM t GROUP BY window(at, '1 minute')", "struct column"),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", "table sample"),
        ("SELECT n, collect_list(id) AS ids, try_avg(x) AS r FROM t GROUP BY n", "aggregate: collect_list"),
        (
            "SELECT CAST(first(id) AS bigint) AS f, regr_count(n, n) OVER (ORDER BY n) AS r FROM t GROUP BY n",
            "aggregate: first",
        ),
        ("SELECT id, regr_count(n, n) OVER (ORDER BY twice(n)) AS r FROM t", "function: twice"),
        ("SELECT keyword FROM sql_keywords()", "table function: sql_keywords"),
        ("SELECT n, approx_top_k(x) OVER () AS h FROM t", "window function: approx_top_k"),
        ("SELECT n, rank() OVER (ORDER BY x) AS r FROM w", "nondeterministic function: rand"),
    ],
)
def test_what_leaves_its_answer_open_stays_refused_by_name(text: str, operator: str, tmp_path: Path):
    catalogue = project(tmp_path, v=text, w="SELECT n, x + rand() AS x FROM t")
    refused = catalogue.views["v"].recomputed
    assert isinstance(refused, Refusal)
    assert refused.operator == operator
    assert refused.problems[0].where is not None
    assert "refresh: full" not in (refused.problems[0].hint or "")


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("SELECT id, rank() OVER (ORDER BY x) AS r\nFROM t WHERE nn > 3", 'column "nn" does not exist', 2),
        ("SELECT id,\n rank() OVER (ORDER BY xx) AS r FROM t", 'column "xx" does not exist', 2),
        ("SELECT id, rank() OVER (ORDER BY x) AS r\n FROM t JOIN uu ON t.id = uu.id", 'table "uu" does not exist', 2),
        ("SELECT id, rank() OVER (ORDER BY x) AS r,\n idd FROM t", 'column "idd" does not exist', 2),
        ("SELECT id, sum(n) OVER (ORDER BY rankk(x)) AS r FROM t", 'function "rankk" does not exist', 1),
        ("SELECT id, lag(NULL) OVER (ORDER BY id) AS r FROM t", 'the type of "lag" is not known', 1),
        ("SELECT id FROM t EXCEPT ALL SELECT id, k FROM u", "the queries have 1 and 2 columns", 1),
    ],
)
def test_mistakes_beyond_what_is_not_maintained_are_found(text: str, message: str, line: int, tmp_path: Path):
    with pytest.raises(InputError) as raised:
        project(tmp_path, v=text)
    problem, *others = raised.value.problems
    assert not others
    assert message in problem.message
    assert problem.where is not None
    assert problem.where.line == line


def test_views_that_read_each_other_too_often_are_a_mistake(tmp_path: Path):
    views = {f"v{n}": f"SELECT a.id FROM v{n - 1} a JOIN v{n - 1} b ON a.id = b.id" for n in range(1, 15)}
    contracts = "  c: {view: v14, at: us, freshness: 1 h, refresh: full}"
    with pytest.raises(InputError, match="reads more than 1000 tables"):
        project(tmp_path, contracts, v0="SELECT id, rank() OVER (ORDER BY x) AS r FROM t", **views)


BOTH = "  a: {view: v, at: us, freshness: 1 h}\n  b: {view: v, at: us, freshness: 1 h, refresh: full}"


def test_a_view_that_is_asked_for_in_both_ways_is_there_twice(tmp_path: Path):
    catalogue = project(tmp_path, BOTH, v="SELECT * FROM t")
    assert [(one.view, one.refresh.value) for one in catalogue.contracts.values()] == [
        ("v", "incremental"),
        ("v~full", "full"),
    ]
    assert catalogue.views["v"].recomputed is None
    assert recomputed(catalogue, "v~full").query == catalogue.views["v"].query


def test_the_name_of_the_second_is_none_that_another_view_may_have(tmp_path: Path):
    catalogue = project(tmp_path, BOTH, **{"v": "SELECT * FROM t", "v-full": "SELECT id FROM t"})
    assert find_wrong_name(catalogue.contracts["b"].view)
    assert name_of_view(catalogue.contracts["b"].view) == "v"


AUTO = "  a: {view: v, at: us, freshness: 1 h, refresh: auto}\n"
INCREMENTAL = "  i: {view: v, at: us, freshness: 1 h}\n"
FULL = "  f: {view: v, at: us, freshness: 1 h, refresh: full}\n"
RANKED = "SELECT id, regr_count(n, n) OVER (ORDER BY n) AS r FROM t"


@pytest.mark.parametrize(
    ("contracts", "text", "views"),
    [
        pytest.param(AUTO, "SELECT * FROM t", {"a": ("v", ("v", "v~full"))}, id="either way"),
        pytest.param(
            AUTO + FULL, "SELECT * FROM t", {"a": ("v", ("v", "v~full")), "f": ("v~full", ())}, id="beside full"
        ),
        pytest.param(
            AUTO + INCREMENTAL, "SELECT * FROM t", {"a": ("v", ("v", "v~full")), "i": ("v", ())}, id="beside maintained"
        ),
        pytest.param(AUTO, RANKED, {"a": ("v", ())}, id="only in full"),
        pytest.param(
            AUTO + INCREMENTAL, RANKED, {"a": ("v~full", ()), "i": ("v", ())}, id="only in full, beside what is refused"
        ),
        pytest.param(AUTO, "SELECT id FROM t WHERE rand() < 0.5", {"a": ("v", ())}, id="refused in both"),
    ],
)
def test_auto_has_the_ways_to_choose_from_that_there_are(
    contracts: str, text: str, views: dict[str, object], tmp_path: Path
):
    catalogue = project(tmp_path, contracts, v=text)
    assert {name: (one.view, one.ways) for name, one in catalogue.contracts.items()} == views
    taken = {view for one in catalogue.contracts.values() for view in (one.view, *one.ways)}
    assert taken == set(catalogue.views)


def hints(text: str, folder: Path) -> list[str]:
    refused = project(folder, "  c: {view: v, at: us, freshness: 1 h}", v=text).views["v"].query
    assert isinstance(refused, Refusal)
    return [problem.hint or "" for problem in refused.problems]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, try_sum(n) OVER (ORDER BY id) AS total FROM t",
        "SELECT n, try_sum(id) AS s FROM t GROUP BY n",
    ],
)
def test_full_is_offered_for_what_can_be_recomputed(text: str, tmp_path: Path):
    assert all(hint.endswith("; or set `refresh: full` in the contract") for hint in hints(text, tmp_path))


def test_full_is_offered_with_a_type_for_functions_whose_type_is_not_known(tmp_path: Path):
    (hint,) = hints("SELECT id, to_char(at, 'yyyy') AS y FROM t", tmp_path)
    assert hint.endswith("; or set `refresh: full` in the contract and write CAST(... AS TYPE) around it")
    recomputed(project(tmp_path, v="SELECT id, CAST(to_char(at, 'yyyy') AS string) AS y FROM t"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS WITH TIES",
        "SELECT id FROM t ORDER BY id LIMIT 2 PERCENT",
        "SELECT id, s -> 'a' AS a FROM t",
        "SELECT id, rand() AS r FROM t",
    ],
)
def test_full_is_not_offered_for_what_cannot_be_recomputed_either(text: str, tmp_path: Path):
    assert not any("refresh" in hint for hint in hints(text, tmp_path))
