"""Whatever a plan holds comes back from its text as it was; any other text is refused by name."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
from dataclasses import MISSING, replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.workloads.table1 import make_table1
from headrace.app.planning import plan_project
from headrace.declare.read import read_project
from headrace.declare.sql import read_query
from headrace.meaning.deltas import delta
from headrace.model.catalogue import Catalogue, Refusal, SourceColumn
from headrace.model.errors import UnsupportedSql, WireError
from headrace.model.expr import TRUE, Call, Expr, Literal
from headrace.model.origin_types import Enumeration, OriginType
from headrace.model.plan import Plan, PlanOptions
from headrace.model.relation import Filter, Scan, stamps_of
from headrace.model.types import BOOLEAN, DOUBLE, NULL, STRING, Array
from headrace.model.wire import FORMAT, read_wire, write_wire
from headrace.model.wire_forms import nouns
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.make import make_plan, plan_views
from headrace.testing import SCHEMA, queries, relations
from headrace.testing.tables import POOLS, values
from tests.declare.projects import write_project
from tests.examples import examples
from tests.golden import check_golden
from tests.plan.written import catalogue, contract, mesh, site
from tests.queries import schemas

ROOT = Path(__file__).parents[2]
SITES = ("m1", "m2")
ANY = settings(deadline=None, suppress_health_check=list(HealthCheck))


def comes_back(value):
    """Alike to the last digit: `1`, `1.0`, `True` and `1.00` are equal to each other, NaN not to itself."""
    text = write_wire(value, "0.1.0")
    back = read_wire(text, type(value))
    assert repr(back) == repr(value)
    assert write_wire(back, "0.1.0") == text
    return back


# What comes back


@pytest.mark.parametrize("name", ["city", "apps"])
def test_the_plan_of_an_example_comes_back(name):
    plan = plan_project(ROOT / "examples" / name, {}, PlanOptions())
    assert comes_back(plan) == plan


def test_a_project_that_says_everything_comes_back(tmp_path):
    text = (ROOT / "tests" / "declare" / "full.yml").read_text()
    views = {
        "nearby_tweets": "SELECT * FROM curloc ORDER BY lat",
        "nearby_friends": "SELECT * FROM people",
        "ranked": "SELECT tid, rand() AS a FROM curloc",
    }
    found = read_project(write_project(tmp_path, text, **views), {"US_DSN": "", "EU_DSN": ""})
    assert found.feeds and found.devices and found.templates and found.functions and found.views["nearby_tweets"].notes
    assert isinstance(found.views["ranked"].query, Refusal)
    assert comes_back(found) == found


@pytest.mark.parametrize("origin", [None, OriginType.TEXT, Enumeration(("low", "high"))])
def test_what_postgresql_calls_the_type_of_a_column_comes_back(origin):
    column = SourceColumn("level", STRING, origin_type=origin)
    assert comes_back(column) == column


def test_the_plan_of_25_contracts_comes_back():
    plan = make_plan(make_table1(), PlanOptions())
    assert len(plan.contracts) == 25
    assert comes_back(plan) == plan


def plan_of(schema, *texts):
    views = {f"v{number}": blocks_of(f"v{number}", read_query(sql, schema)) for number, sql in enumerate(texts)}
    sources = [
        replace(one, site=SITES[number % 2], rows=1000.0, rate=2.0) for number, one in enumerate(schema.values())
    ]
    contracts = [contract(f"c_{name}", name, "m1", 600) for name in views]
    return plan_views(catalogue([site(name) for name in SITES], mesh(SITES), sources, contracts), views, PlanOptions())


@pytest.mark.parametrize(
    ("schema", "sql"),
    [
        *((schemas.TPCH, file.read_text()) for file in sorted((schemas.FOLDER / "tpch").glob("*.sql"))),
        *((schemas.NEXMARK, file.read_text()) for file in sorted((schemas.FOLDER / "nexmark").glob("*.sql"))),
        *((SCHEMA, sql) for sql in schemas.understood()),
    ],
)
def test_plans_and_meanings_of_queries_that_people_write_come_back(schema, sql):
    try:
        meaning = read_query(sql, schema)
    except UnsupportedSql:
        return
    assert comes_back(meaning) == meaning
    if not stamps_of(meaning):
        assert comes_back(delta(meaning)) == delta(meaning)
    plan = plan_of(schema, sql)
    assert comes_back(plan) == plan


@ANY
@given(relations(timed=True))
def test_random_relations_and_their_deltas_come_back(relation):
    comes_back(relation)
    changed = delta(relation)
    if changed is not None:
        comes_back(changed)


@settings(ANY, max_examples=examples(15))
@given(st.lists(queries(SCHEMA), min_size=1, max_size=2))
def test_plans_of_random_queries_come_back(texts):
    with contextlib.suppress(UnsupportedSql):
        comes_back(plan_of(SCHEMA, *texts))


CONSTANTS = [
    None, True, False, 0, 1, -1, 2**63, 10**60, 0.0, -0.0, 1.0, 0.1, 5e-324, 1.7976931348623157e308, math.nan, math.inf,
    -math.inf, Decimal("1"), Decimal("1.00"), Decimal("-0"), Decimal("1E+5"), Decimal("NaN"), Decimal("Infinity"),
    Decimal("9" * 38), "", "ä\n\"\\\x00", "\ud800", b"", b"\x00\xff", dt.date.min, dt.date.max,
    dt.datetime(2024, 2, 29, 12, 30, 15, 123456), dt.datetime.min, dt.datetime.max, dt.timedelta(-1, 5, 7),
    dt.timedelta.max, dt.timedelta.min, (), (1, (2.0, None), Decimal("1.0")),
]  # fmt: skip


@pytest.mark.parametrize("constant", CONSTANTS, ids=repr)
def test_every_constant_comes_back(constant):
    comes_back(Literal(constant, NULL))


@ANY
@given(st.sampled_from(sorted(POOLS, key=str)).flatmap(lambda type_: values(type_, extreme=True)))
def test_random_constants_come_back(constant):
    comes_back(Literal(constant, Array(NULL)))


@ANY
@given(st.floats() | st.integers())
def test_any_number_of_a_plan_comes_back(number):
    plan = plan_of(SCHEMA, "SELECT id FROM r")
    comes_back(replace(plan, totals=replace(plan.totals, rescost=number, link={("a", "b"): number})))


def test_equal_constants_of_different_kinds_stay_apart():
    either = Call(
        "or", (Literal(1, NULL), Literal(True, NULL), Literal(1.0, NULL), Literal(Decimal("1.0"), NULL)), NULL
    )
    comes_back(either)


def test_what_is_equal_is_written_once():
    large = Call("and", (TRUE, TRUE), BOOLEAN)
    twice = Call("or", (large, replace(large)), BOOLEAN)
    assert write_wire(twice, "0").count('"and"') == 1


DEEP = 20_000


def test_queries_may_be_nested_more_deeply_than_calls():
    deep: Expr = TRUE
    for _ in range(DEEP):
        deep = Call("not", (deep,), BOOLEAN)
    back: object = read_wire(write_wire(deep, "0"), Call)
    for _ in range(DEEP):
        assert isinstance(back, Call)
        (back,) = back.arguments
    assert back == TRUE


# What is refused


def text_of(*entries, **head):
    return json.dumps({"format": FORMAT, "written_by": "0.1.0", "entries": list(entries), **head})


SCAN = {"is": "Scan", "source": "s", "alias": "a", "columns": [], "types": []}
HOLDS = {"is": "Literal", "value": True, "type": 0}
TYPE = {"is": "Simple", "kind": "boolean"}
WHOLE = [TYPE, HOLDS, SCAN, {"is": "Filter", "input": 2, "predicate": 1}]


def test_the_text_of_a_filter_is_as_written_here():
    assert read_wire(text_of(*WHOLE), Filter) == Filter(Scan("s", "a", (), ()), TRUE)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        (text_of(*WHOLE)[:-9], "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "format"),
        ("{}", "format"),
        (text_of(*WHOLE, format="headrace/99", written_by="9.1"), 'Headrace 9.1 wrote it in the format "headrace/99"'),
        (text_of(), "no \"entries\""),
        (text_of(*WHOLE, entries={}), "no \"entries\""),
        (text_of(*WHOLE[:2]), "holds a Literal, not a Filter"),
        (text_of(*WHOLE).replace("true", "NaN"), "NaN is not a JSON number"),
        (text_of({**TYPE, "is": "Evil"}), "entry 0 is of an unknown kind: 'Evil'"),
        (text_of({**TYPE, "is": ["Simple"]}), "unknown kind"),
        (text_of(7), "unknown kind"),
        (text_of({**TYPE, "kind": "boolaen"}), "entry 0 (Simple), field \"kind\": 'boolaen' is not one of boolean"),
        (text_of({**TYPE, "kind": None}), "None is not one of"),
        (text_of({"is": "Simple"}), 'there is no field "kind"'),
        (text_of({**TYPE, "colour": 1}), 'field "colour" is not known'),
        (text_of(TYPE, {**HOLDS, "type": 1}), "1 is not the number of an earlier entry"),
        (text_of(TYPE, {**HOLDS, "type": -1}), "-1 is not the number of an earlier entry"),
        (text_of(TYPE, {**HOLDS, "type": True}), "True is not the number of an earlier entry"),
        (text_of(TYPE, {**HOLDS, "type": TYPE}), "is not the number of an earlier entry"),
        (text_of(TYPE, HOLDS, {**HOLDS, "type": 1}), "entry 1 is no Array or Decimal or Simple"),
        (text_of(TYPE, {**HOLDS, "value": {"code": "exit()"}}), '"code" is not known'),
        (text_of(TYPE, {**HOLDS, "value": {"date": "yesterday"}}), "'yesterday' is no date"),
        (text_of(TYPE, {**HOLDS, "value": {"decimal": "1,0"}}), "'1,0' is no decimal"),
        (text_of(TYPE, {**HOLDS, "value": {"interval": [1]}}), "[1] is no interval"),
        (text_of(TYPE, {**HOLDS, "value": [1]}), "[1] is no value"),
        (text_of({**SCAN, "source": 7}), "7 is not str"),
        (text_of({**SCAN, "columns": "abc"}), "'abc' is not a list"),
        (text_of({**SCAN, "columns": [1]}), "1 is not str"),
        (text_of({"is": "Decimal", "precision": "10", "scale": 0}), "'10' is not int"),
        (text_of({"is": "Decimal", "precision": True, "scale": 0}), "True is not int"),
        (text_of({"is": "Rate", "constant": "many"}), "'many' is not a number"),
        (text_of({"is": "Rate", "grouped": [[1.0]]}), "does not have 2 parts"),
        (text_of({"is": "Totals", "rescost": 1, "cpu": [], "link": [], "disk": {}}), "[] is not an object"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_value_of_ours_is_refused_by_name(text, why):
    with pytest.raises(WireError) as refused:
        read_wire(text, Filter)
    assert why in str(refused.value)


@settings(ANY, max_examples=examples(300))
@given(st.data())
def test_a_text_that_was_damaged_is_read_or_refused_and_nothing_else(data):
    text = write_wire(plan_of(SCHEMA, "SELECT id FROM r"), "0")
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 20)))
    damaged = text[:at] + data.draw(st.text(max_size=5)) + text[until:]
    with contextlib.suppress(WireError):
        assert isinstance(read_wire(damaged, Plan), Plan)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        7,
        Literal({1}, DOUBLE),  # type: ignore[arg-type]
        Scan("s", "a", ["x"], ()),  # type: ignore[arg-type]
        Scan("s", "a", (None,), ()),  # type: ignore[arg-type]
        Filter(Scan("s", "a", (), ()), Scan("s", "a", (), ())),  # type: ignore[arg-type]
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_could_not_be_read_again_is_not_written(value):
    with pytest.raises(WireError):
        write_wire(value, "0")


def test_catalogues_are_no_plans():
    with pytest.raises(WireError, match="holds a Catalogue, not a Plan"):
        read_wire(write_wire(make_table1(), "0"), Plan)
    assert isinstance(read_wire(write_wire(make_table1(), "0"), Catalogue), Catalogue)


# The format


def test_the_nouns_of_the_format_are_as_written_down():
    lines = [
        f"# The nouns of {FORMAT}. A field may be added if it has a default; any other change needs another FORMAT.",
        *(
            f"{name}: {', '.join(_describe(field, noun.kind) for field in noun.fields)}"
            for name, noun in sorted(nouns().items())
        ),
    ]
    check_golden(ROOT / "tests" / "golden" / "wire" / "nouns.txt", "\n".join(lines) + "\n")


def _describe(field, kind):
    annotation = kind.__annotations__[field.name]
    return f"{field.name} {annotation}" + ("" if field.default is MISSING else f" = {field.default!r}")
