"""A dialect is said by the project or by the first line of a view, and `convert` shows what a view is read as."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.declare.dialect_line import read_dialect_line
from headrace.declare.query.calls import NOT_BY_NAME
from headrace.declare.read import read_project
from headrace.declare.recompute import FullViewReader
from headrace.declare.sql import ViewText, convert_view, read_query, read_views
from headrace.doors.cli.main import run
from headrace.meaning.json_functions import ONLY_OURS
from headrace.model.catalogue import Refusal, Source
from headrace.model.dialect import SqlDialect
from headrace.model.errors import InputError, Location, UnsupportedSql
from headrace.model.origin_types import ColumnOrigin, Enumeration, OriginType
from headrace.model.relation import Relation, fields_of
from headrace.model.show import show
from headrace.model.types import INT, STRING, TIMESTAMP
from headrace.testing import SCHEMA, make_source
from tests.queries.schemas import postgres_only, postgres_queries

PROJECT = """
project: shop
{dialect}
sites: {{here: {{}}}}
sources:
  orders: {{kind: table, at: here, key: [id], columns: {{id: int, total: double, cents: int}}, rows: 10, rate: 1}}
"""


def write_project(folder: Path, dialect: str, **views: str) -> Path:
    (folder / "views").mkdir()
    (folder / "headrace.yml").write_text(PROJECT.format(dialect=dialect))
    for name, sql in views.items():
        (folder / "views" / f"{name}.sql").write_text(sql)
    return folder


def meaning(folder: Path, view: str) -> str:
    query = read_project(folder, {}).views[view].query
    assert isinstance(query, Relation)
    return show(query)


def test_the_dialect_of_the_project_holds_for_views_that_say_none(tmp_path: Path):
    folder = write_project(
        tmp_path,
        "dialect: postgres",
        whole="SELECT cents / 100 AS units FROM orders",
        part="-- dialect: spark\nSELECT cents / 100 AS units FROM orders",
        bare="dialect: postgres\nSELECT cents / 100 AS units FROM orders",
        over="SELECT units / 2 AS half FROM part",
    )
    assert " div " in meaning(folder, "whole")
    assert " div " not in meaning(folder, "part")
    assert " div " in meaning(folder, "bare")
    assert " div " not in meaning(folder, "over"), "what a view in Spark's dialect gives is a double"


def test_a_project_is_spark_unless_it_says_otherwise(tmp_path: Path):
    folder = write_project(tmp_path, "", whole="SELECT cents / 100 AS units FROM orders")
    assert " div " not in meaning(folder, "whole")
    assert read_project(folder, {}).views["whole"].dialect is SqlDialect.SPARK


def test_a_dialect_that_does_not_exist_is_a_mistake_with_its_place(tmp_path: Path):
    with pytest.raises(InputError) as caught:
        read_dialect_line(ViewText("v", "-- dialect: postgre\nSELECT 1", "views/v.sql"))
    (problem,) = caught.value.problems
    assert problem.where == Location("views/v.sql", 1, 13)
    assert "postgres" in str(problem.hint)
    folder = write_project(tmp_path, "dialect: oracle", v="SELECT id FROM orders")
    with pytest.raises(InputError, match="oracle"):
        read_project(folder, {})


def test_convert_shows_the_text_in_sparks_dialect(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = write_project(tmp_path, "dialect: postgres", v="SELECT cents / 100 AS Units FROM orders ORDER BY cents")
    file = folder / "views" / "v.sql"
    assert run(["convert", str(file)]) == 0
    text = "SELECT cents DIV 100 AS units FROM orders ORDER BY cents NULLS LAST"
    assert capsys.readouterr().out.strip() == text
    assert run(["convert", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(file), "dialect": "postgres", "sql": text}


@pytest.mark.parametrize("sql", postgres_queries())
def test_the_text_in_sparks_dialect_can_be_read_back(sql: str):
    """As the same columns; `live/test_postgres_dialect_on_spark.py` compares what they hold."""
    text = convert_view("query", {"query": ViewText("query", sql, "q.sql", SqlDialect.POSTGRES)}, SCHEMA, {})
    columns = fields_of(read_query(sql, SCHEMA, dialect=SqlDialect.POSTGRES))
    assert [(field.name, field.type) for field in fields_of(read_query(text, SCHEMA))] == [
        (field.name, field.type) for field in columns
    ]


def test_convert_says_all_that_has_no_such_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = write_project(
        tmp_path, "dialect: postgres", v="SELECT id::char(3) AS a, to_char(now() - now(), 'DD') AS b FROM orders"
    )
    assert run(["convert", str(folder / "views" / "v.sql")]) == 2
    said = capsys.readouterr().err
    assert "char(n)" in said
    assert "to_char of an interval" in said


def test_a_file_outside_of_any_project_cannot_be_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.sql").write_text("SELECT 1")
    assert run(["convert", "v.sql"]) == 2
    assert "belongs to no project" in capsys.readouterr().err


REFUSED = {
    "SELECT name::char(3) AS a FROM r": "expression: cast to char(n)",
    "SELECT at || '' AS a FROM r": "expression: timestamp as text",
    "SELECT at AT TIME ZONE 'Europe/Paris' AS a FROM r": "expression: AT TIME ZONE of a column",
    "SELECT at AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Paris' AS a FROM r": "expression: AT TIME ZONE of a column",
    "SELECT at::timestamptz AT TIME ZONE '+02' AS a FROM r": "expression: AT TIME ZONE '+02'",
    "SELECT at::timestamptz AT TIME ZONE 'CET' AS a FROM r": "expression: AT TIME ZONE 'CET'",
    "SELECT at::time(0) AS a FROM r": "expression: cast to time(n)",
    "SELECT amount::money AS a FROM r": "expression: cast to money",
    "SELECT k::bit(3) AS a FROM r": "expression: cast to bit",
    "SELECT x'1F' AS a FROM r": "expression: bit string",
    "SELECT '\\001'::bytea AS a FROM r": "expression: bytea with escapes",
    "SELECT x::real::numeric AS a FROM r": "expression: real as numeric",
    "SELECT sum(x::real) AS a FROM r": "aggregate: sum of real",
    "SELECT name ~ name AS a FROM r": "expression: ~ with a pattern that changes",
    "SELECT name ~ '\\Aa' AS a FROM r": 'expression: regular expression with "\\A"',
    "SELECT substring(name FROM '(a)?b') AS a FROM r": "expression: substring by a group that may be absent",
    "SELECT substring(name FROM '(?:(a)x)*b') AS a FROM r": "expression: substring by a group that may be absent",
    "SELECT substring(name FROM '(a*)(ab)*') AS a FROM r": "expression: substring by a pattern that repeats a group",
    "SELECT substring(name FROM '(?=(a))a') AS a FROM r": 'expression: regular expression with "(?="',
    "SELECT to_char(at, 'HH24 TZ') AS a FROM r": 'function: to_char with "TZ"',
    "SELECT to_char(amount, '9.9EEEE') AS a FROM r": 'function: to_char of a number with "EEEE"',
    "SELECT to_char(x, '9.9') AS a FROM r": "function: to_char of double precision",
    "SELECT date_trunc('hour', at - at) AS a FROM r": "function: date_trunc of an interval",
    "SELECT (amount / 3)::text AS a FROM r": "expression: numeric of computed digits as text",
    "SELECT '{{1},{2}}'::int[] AS a FROM r": "expression: array as text",
    "SELECT json_build_object('k', name) AS a FROM r": "expression: JSON of a column",
    "SELECT json_build_object('k', at) AS a FROM r": "expression: JSON of timestamp",
    "SELECT row_to_json(s) AS a FROM r LEFT JOIN s ON s.k = r.k": (
        "function: row_to_json of a row that an outer join may lack"
    ),
    "SELECT jsonb_path_exists(name::jsonb, '$.a') AS a FROM r": "function: jsonb_path_exists",
    "SELECT name::jsonb || name AS a FROM r": "expression: || of jsonb and a column",
    "SELECT name::jsonb < '9'::jsonb AS a FROM r": "expression: order of jsonb",
    "SELECT name::jsonb -> 'a' AS a FROM r GROUP BY 1": "expression: GROUP BY of jsonb",
    "SELECT DISTINCT name::jsonb -> 'a' AS a FROM r": "expression: DISTINCT of jsonb",
    "SELECT k FROM r ORDER BY name::jsonb -> 'a' LIMIT 1": "expression: ORDER BY of jsonb",
    "SELECT ARRAY(SELECT DISTINCT k FROM r) AS a": "expression: ARRAY of a query with groups, DISTINCT or LIMIT",
    "SELECT (regexp_matches(name, 'a'))[1] AS a FROM r": "function: regexp_matches",
    "SELECT amount ^ amount AS a FROM r": "expression: power of numeric",
    "SELECT regexp_replace(name, 'a', 'b', 'gx') AS a FROM r": "function: regexp_replace with flags 'gx'",
    "SELECT rank(3) WITHIN GROUP (ORDER BY k) AS a FROM r": "expression: WITHIN GROUP",
    "SELECT k FROM r ORDER BY k LIMIT 1 + 1": "clause: LIMIT of an expression",
    "SELECT k FROM r ORDER BY k OFFSET 1 FETCH FIRST 2 ROWS WITH TIES": "clause: FETCH ... WITH TIES",
    "SELECT date_trunc('decade', at) AS a FROM r": "function: date_trunc to a decade",
    "SELECT format('%I', name) AS a FROM r": "function: format with %I of a value that may be NULL",
    "SELECT array_replace(ARRAY[k], 1.5, 2) AS a FROM r": "function: array_replace of decimal(2,1) in array<int>",
    "SELECT id FROM r WHERE (at::time, at::time) OVERLAPS (at::time, at::time)": (
        "expression: OVERLAPS of other than dates and times"
    ),
    "SELECT log(2, id) AS a FROM r": "function: log with a base",
    'SELECT k FROM r ORDER BY name COLLATE "de_DE" LIMIT 1': 'expression: COLLATE "de_DE"',
}


@pytest.mark.parametrize("sql", postgres_only())
def test_what_spark_has_no_words_for_is_not_converted(sql: str):
    with pytest.raises(UnsupportedSql):
        convert_view("query", {"query": ViewText("query", sql, "q.sql", SqlDialect.POSTGRES)}, SCHEMA, {})


WITHOUT_WORDS = {
    "SELECT sum(k) OVER (ORDER BY id ROWS 1 PRECEDING EXCLUDE CURRENT ROW) AS a FROM r": "exclude current row",
    "SELECT max(k) OVER w AS a FROM r WINDOW w AS (ORDER BY id ROWS 1 PRECEDING EXCLUDE TIES)": "exclude ties",
    "SELECT sum(DISTINCT k) OVER (PARTITION BY id) AS a FROM r": "sum of distinct values",
}


@pytest.mark.parametrize("sql", WITHOUT_WORDS)
def test_words_that_spark_does_not_know_are_neither_dropped_nor_passed_on(sql: str):
    for dialect in SqlDialect:
        texts = {"query": ViewText("query", sql, "q.sql", dialect)}
        if dialect is SqlDialect.POSTGRES:
            with pytest.raises(UnsupportedSql, match=WITHOUT_WORDS[sql]):
                convert_view("query", texts, SCHEMA, {})
        (view,) = read_views(texts, SCHEMA, {})[0].values()
        in_full = FullViewReader(texts, SCHEMA, {})
        assert isinstance(in_full.recomputed(view), Refusal)
        refused = in_full.offer_full(view).query
        assert isinstance(refused, Refusal)
        assert not any("refresh: full" in (one.hint or "") for one in refused.problems)


def test_overlaps_is_not_passed_on_to_spark():
    texts = {"query": ViewText("query", "SELECT id FROM r WHERE (at, at) OVERLAPS (at, at)", "q.sql", SqlDialect.SPARK)}
    (view,) = read_views(texts, SCHEMA, {})[0].values()
    assert isinstance(view.query, Refusal)
    refused = FullViewReader(texts, SCHEMA, {}).recomputed(view)
    assert isinstance(refused, Refusal)
    assert refused.operator == "expression: OVERLAPS"


@pytest.mark.parametrize("sql", REFUSED)
def test_what_would_change_its_meaning_is_refused_by_the_words_that_were_written(sql: str):
    with pytest.raises(UnsupportedSql) as refusal:
        read_query(sql, SCHEMA, dialect=SqlDialect.POSTGRES)
    assert refusal.value.operator == REFUSED[sql]


MISTAKEN = {
    "SELECT id FROM r FETCH FIRST 2 ROWS WITH TIES": "WITH TIES needs ORDER BY",
    "SELECT name ~ 'a++' AS a FROM r": "repeats nothing",
    "SELECT name ~ '*a' AS a FROM r": "repeats nothing",
    "SELECT date() AS a FROM r": "takes 1 arguments",
    "SELECT substr() AS a FROM r": "2 or 3 arguments",
    "SELECT substr(name, 1, 2, 3) AS a FROM r": "2 or 3 arguments",
    "SELECT btrim() AS a FROM r": "not 0 arguments",
    "SELECT at::timestamptz AT TIME ZONE 'Europe/Pariss' AS a FROM r": "not a time zone",
}


@pytest.mark.parametrize("sql", MISTAKEN)
def test_what_postgres_does_not_take_is_a_mistake(sql: str):
    with pytest.raises(InputError, match=MISTAKEN[sql]):
        read_query(sql, SCHEMA, dialect=SqlDialect.POSTGRES)


def test_a_refused_view_in_postgres_is_recomputed_in_sparks_words(tmp_path: Path):
    sql = "SELECT id, approx_count_distinct(cents / 2) AS n FROM orders WHERE cents / 2 > 1 GROUP BY id"
    folder = write_project(tmp_path, "dialect: postgres", v=sql)
    with (folder / "headrace.yml").open("a") as file:
        file.write("contracts: {c: {view: v, at: here, freshness: 1 min, refresh: full}}\n")
    recomputed = read_project(folder, {}).views["v"].recomputed
    assert recomputed is not None
    assert not isinstance(recomputed, Refusal)
    assert recomputed.sql.count(" DIV ") == 2


@pytest.mark.parametrize("name", ["numericproduct", "product", "intervalsum", "jsonb_changd", "second_prt"])
@pytest.mark.parametrize("dialect", SqlDialect)
def test_no_hint_names_what_nobody_can_write(name: str, dialect: SqlDialect):
    with pytest.raises(InputError, match="does not exist") as caught:
        read_query(f"SELECT {name}(k, k) AS a FROM r", SCHEMA, dialect=dialect)
    (problem,) = caught.value.problems
    for hidden in (*ONLY_OURS, *NOT_BY_NAME):
        assert f'"{hidden}"' not in str(problem.hint)


@pytest.mark.parametrize("dialect", SqlDialect)
def test_a_recursive_query_of_constants_is_refused_by_its_name_in_full_as_well(dialect: SqlDialect):
    sql = "WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM q WHERE n < 5) SELECT n FROM q"
    texts = {"query": ViewText("query", sql, "q.sql", dialect)}
    (view,) = read_views(texts, SCHEMA, {})[0].values()
    refused = FullViewReader(texts, SCHEMA, {}).recomputed(view)
    assert isinstance(refused, Refusal)
    assert refused.operator == "recursive query"


ALIKE = {
    "SELECT time_bucket('15 minutes', at) AS a, last(n, at) AS b FROM r GROUP BY 1": (
        "SELECT date_bin('15 minutes', at, timestamp '2000-01-03') AS a, max_by(n, at) AS b FROM r GROUP BY 1"
    ),
    "SELECT time_bucket('1 month', day) AS a, first(n, at) AS b FROM r GROUP BY 1": (
        "SELECT date_trunc('month', day)::date AS a, min_by(n, at) AS b FROM r GROUP BY 1"
    ),
    "SELECT arg_max(id, n) AS a, arg_min(id, n) AS b FROM r": "SELECT max_by(id, n) AS a, min_by(id, n) AS b FROM r",
    "SELECT * REPLACE (upper(label) AS label, k + 1 AS k) RENAME (n AS other) FROM s FOR UPDATE": (
        "SELECT k + 1 AS k, n AS other, price, upper(label) AS label, at FROM s"
    ),
    "SELECT argmax(id, n) AS a, countif(ok) AS b, list(id ORDER BY id) AS c, favg(x) AS d FROM r": (
        "SELECT max_by(id, n) AS a, count_if(ok) AS b, array_agg(id ORDER BY id) AS c, avg(x) AS d FROM r"
    ),
    "SELECT quantile_cont(n, 0.25) FILTER (WHERE ok) AS a, approx_percentile(0.5, 0.01) WITHIN GROUP (ORDER BY k) AS b "
    "FROM r": (
        "SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY n) FILTER (WHERE ok) AS a, "
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY k) AS b FROM r"
    ),
    "SELECT float8(k) AS a, int4(amount) AS b, first(n ORDER BY id) AS c, NULL AS d FROM r GROUP BY k, amount": (
        "SELECT k::float8 AS a, amount::int AS b, (array_agg(n ORDER BY id))[1] AS c, NULL::text AS d FROM r "
        "GROUP BY k, amount"
    ),
    "SELECT last_value(n ORDER BY id, at) AS a FROM r": (
        "SELECT (array_agg(n ORDER BY id DESC NULLS FIRST, at DESC NULLS FIRST))[1] AS a FROM r"
    ),
    "SELECT HOP_START(at, INTERVAL '5' MINUTE, INTERVAL '1' HOUR) AS a, count(*) AS n FROM r "
    "GROUP BY HOP(at, INTERVAL '5' MINUTE, INTERVAL '1' HOUR)": (
        "SELECT window.start AS a, count(*) AS n FROM r GROUP BY window(at, '1 hour', '5 minutes')"
    ),
}
"""What others who speak PostgreSQL's dialect write, by what it means."""


@pytest.mark.parametrize("sql", ALIKE)
def test_what_its_kin_write_means_what_they_mean(sql: str):
    read, same = (read_query(text, SCHEMA, dialect=SqlDialect.POSTGRES) for text in (sql, ALIKE[sql]))
    assert read == same


def test_windows_of_groups_are_read_in_the_dialect_of_spark_too():
    written = (
        "SELECT TUMBLE_END(at, INTERVAL '1' HOUR) AS a, count(*) AS n FROM r GROUP BY TUMBLE(at, INTERVAL '1' HOUR)"
    )
    assert read_query(written, SCHEMA) == read_query(
        "SELECT window.end AS a, count(*) AS n FROM r GROUP BY window(at, '1 hour')", SCHEMA
    )


WITHOUT_SPARK = {
    "SELECT count(*) OVER (ORDER BY at RANGE BETWEEN '1 month' PRECEDING AND '3 days' FOLLOWING) AS a FROM r": (
        "months and days on different sides"
    ),
    "SELECT id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = r.k AND s.k = t.k))": (
        "two queries further in"
    ),
    "SELECT id, (SELECT sum(s.n) FILTER (WHERE s.k < r.k) FROM s) AS a FROM r": "named in an aggregate",
}


@pytest.mark.parametrize("sql", WITHOUT_SPARK)
def test_what_spark_would_reject_is_not_converted(sql: str):
    with pytest.raises(UnsupportedSql, match=WITHOUT_SPARK[sql]):
        convert_view("query", {"query": ViewText("query", sql, "q.sql", SqlDialect.POSTGRES)}, SCHEMA, {})
    read_query(sql, SCHEMA, dialect=SqlDialect.POSTGRES)


SPANS = {
    "SELECT DISTINCT up FROM h": "DISTINCT of interval",
    "SELECT up FROM h UNION SELECT up FROM h": "rows told apart by interval",
    "SELECT a.id FROM h a JOIN h b USING (up)": r"USING \(up\) of interval",
    "SELECT array_agg(DISTINCT up) AS a FROM h": "DISTINCT of interval",
    "SELECT up, count(*) AS n FROM h GROUP BY CUBE (up, id)": "GROUPING SETS of interval",
    "SELECT greatest(up, '1 day') AS a FROM h": "greatest of interval",
    "SELECT least(mood, 'sad') AS a FROM h": "least of an enum",
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY mood) AS a FROM h": "percentile_disc of an enum",
    "SELECT array_agg(DISTINCT mood ORDER BY mood) AS a FROM h": "different values in the order of their type",
    "SELECT id FROM h WHERE zoned < '12:00+00'": "comparison of timetz",
    "SELECT id FROM h ORDER BY zoned LIMIT 1": "ORDER BY of timetz",
    "SELECT max(zoned) AS a FROM h": "order of timetz",
}


@pytest.mark.parametrize("sql", SPANS)
def test_what_is_held_as_text_and_sorted_otherwise_is_not_taken_for_text(sql: str):
    with pytest.raises(UnsupportedSql, match=SPANS[sql]):
        read_query(sql, {"h": make_spans()}, dialect=SqlDialect.POSTGRES)


def test_a_value_that_an_enum_does_not_have_is_a_mistake():
    with pytest.raises(InputError, match="'glad' is no value of the enum"):
        read_query("SELECT id FROM h WHERE mood < 'glad'", {"h": make_spans()}, dialect=SqlDialect.POSTGRES)


def make_spans() -> Source:
    """A source with columns that PostgreSQL does not sort by their text."""
    texts = dict.fromkeys(("up", "opened", "zoned", "mood"), STRING)
    plain = make_source("h", {"id": INT, "at": TIMESTAMP, **texts})
    types: dict[str, ColumnOrigin] = {
        "up": OriginType.INTERVAL,
        "opened": OriginType.TIME,
        "zoned": OriginType.TIMETZ,
        "mood": Enumeration(("sad", "happy")),
    }
    return replace(plain, columns=tuple(replace(one, origin_type=types.get(one.name)) for one in plain.columns or ()))
