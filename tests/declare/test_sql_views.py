"""Views are read together: they read each other, and all their mistakes are told at once."""

from __future__ import annotations

import pytest

from headrace.declare.sql import ViewText, read_predicate, read_views
from headrace.model.catalogue import Refusal, View
from headrace.model.errors import InputError, Location, Problem, Severity, UnsupportedSql
from headrace.model.relation import Relation, fields_of, scans_of
from headrace.model.show import show, show_expr
from tests.declare.query.reading import SHOP
from tests.queries.schemas import by_name, source


def read(**queries: str) -> tuple[dict[str, View], tuple[Problem, ...]]:
    texts = {name: ViewText(name, sql, f"views/{name}.sql") for name, sql in queries.items()}
    return read_views(texts, SHOP, {})


def query_of(view: View) -> Relation:
    assert not isinstance(view.query, Refusal)
    return view.query


def test_a_view_over_views_is_expanded_with_aliases_that_stay_unique():
    views, problems = read(
        large="SELECT id, customer FROM orders WHERE total > 100",
        pairs="SELECT a.id, b.id AS other FROM large a JOIN large b ON a.customer = b.customer",
    )
    assert not problems
    assert show(query_of(views["pairs"])) == "\n".join(
        (
            "project id = a/orders.id, other = b/orders.id",
            "  join inner on a/orders.customer = b/orders.customer",
            "    filter a/orders.total > 100.00",
            "      scan orders as a/orders",
            "    filter b/orders.total > 100.00",
            "      scan orders as b/orders",
        )
    )


def test_views_keep_their_order_text_and_what_they_read():
    views, _ = read(
        second="SELECT f.id FROM first f, Customers c WHERE f.customer = c.id AND f.id IN (SELECT order_id FROM items)",
        first="SELECT id, customer FROM orders",
    )
    assert list(views) == ["second", "first"]
    assert views["second"].reads == ("first", "customers", "items")
    assert views["first"].reads == ("orders",)
    assert views["first"].sql == "SELECT id, customer FROM orders"
    assert views["first"].declared_at == Location("views/first.sql", 1, 1)


def test_a_view_that_reads_itself_is_a_mistake_that_shows_the_way():
    views, problems = read(
        a="SELECT id FROM b",
        b="SELECT id FROM\n  c",
        c="SELECT id FROM a",
        d="SELECT id FROM orders",
    )
    assert list(views) == ["d"]
    (problem,) = problems
    assert problem.message == 'view "a" reads itself: a -> b -> c -> a'
    assert problem.where == Location("views/c.sql", 1, 16)


def test_all_mistakes_of_all_views_are_reported_and_the_others_are_read():
    views, problems = read(
        wrong="SELECT idd, nme FROM customers",
        broken="SELECT FROM WHERE",
        right="SELECT id FROM customers",
        over_wrong="SELECT idd, whatever FROM wrong",
    )
    assert list(views) == ["right"]
    assert [(str(problem.where), problem.message) for problem in problems] == [
        ("views/wrong.sql:1:8", 'column "idd" does not exist'),
        ("views/wrong.sql:1:13", 'column "nme" does not exist'),
        ("views/broken.sql:1:13", 'syntax error at "WHERE": something is missing here'),
    ]


def test_a_view_that_is_not_maintained_is_refused_and_so_is_a_view_that_reads_it():
    views, problems = read(
        some="SELECT id FROM orders WHERE rand() < 0.5",
        over="SELECT s.id FROM customers c JOIN some s ON s.id = c.id",
        right="SELECT id FROM orders",
    )
    assert not problems
    assert isinstance(views["some"].query, Refusal)
    assert views["some"].query.operator == "nondeterministic function: rand"
    refusal = views["over"].query
    assert isinstance(refusal, Refusal)
    assert refusal.operator == "nondeterministic function: rand"
    assert (
        refusal.problems[0].message == 'view "some" is not maintained incrementally: "nondeterministic function: rand"'
    )
    assert refusal.problems[0].where == Location("views/over.sql", 1, 35)
    assert refusal.problems[0].hint is not None
    assert refusal.problems[0].hint.startswith("see views/some.sql:1:29: a maintained view")
    assert not isinstance(views["right"].query, Refusal)


def test_a_refused_view_still_tells_what_it_reads():
    views, _ = read(
        some="SELECT rand() AS x FROM orders o, Customers c WHERE o.id IN (SELECT order_id FROM items)",
    )
    assert sorted(views["some"].reads) == ["customers", "items", "orders"]


def test_notes_tell_what_was_ignored_or_named():
    views, _ = read(a="SELECT id, sum(total), 1 + 1 FROM orders GROUP BY id ORDER BY id")
    notes = views["a"].notes
    assert [(str(note.where), note.message, note.severity) for note in notes] == [
        ("views/a.sql:1:12", 'a column without a name is called "sum_total"', Severity.NOTE),
        ("views/a.sql:1:24", 'a column without a name is called "_1_1"', Severity.NOTE),
        ("views/a.sql:1:63", "ORDER BY sorts what `headrace show` prints; the view itself has no order", Severity.NOTE),
    ]


def test_of_two_columns_with_one_name_the_second_has_a_number():
    views, problems = read(
        a="SELECT o.id, c.id, c.id AS id_2, O.ID FROM orders o JOIN customers c ON o.customer = c.id",
        b="SELECT id_3, id_4, id_2 FROM a WHERE id > 3",
        c="SELECT id FROM (SELECT o.id, c.id FROM orders o, customers c)",
    )
    assert isinstance(views["a"].query, Relation)
    assert [field.name for field in fields_of(views["a"].query)] == ["id", "id_3", "id_2", "id_4"]
    assert [note.message for note in views["a"].notes] == [
        'column "id" occurs twice in the result: this one is called "id_3"',
        'column "id" occurs twice in the result: this one is called "id_4"',
    ]
    assert isinstance(views["b"].query, Relation)
    assert [problem.message for problem in problems] == ['column "id" is ambiguous']


def test_notes_of_a_view_are_not_repeated_where_it_is_read():
    views, _ = read(a="SELECT id FROM orders ORDER BY id", b="SELECT id FROM a")
    assert views["a"].notes
    assert not views["b"].notes


def test_a_source_may_have_a_name_with_a_dot():
    streams = by_name(
        source("a.location", "lat double, lng double"),
        source("b.location", "lat double, lng double"),
    )
    sql = "SELECT x.lat, x.lng FROM a.location x JOIN b.location y ON distance(x.lat, x.lng, y.lat, y.lng) < 100"
    views, problems = read_views({"near": ViewText("near", sql, "views/near.sql")}, streams, {})
    assert not problems
    assert [(scan.source, scan.alias) for scan in scans_of(query_of(views["near"]))] == [
        ("a.location", "x"),
        ("b.location", "y"),
    ]
    assert views["near"].reads == ("a.location", "b.location")


def test_a_predicate_is_read_over_the_columns_of_one_source():
    where = Location("headrace.yml", 7, 20)
    assert show_expr(read_predicate("total > 5 and orders.note = 'x'", where, SHOP["orders"])) == (
        "orders.total > 5.00 and orders.note = 'x'"
    )


def test_a_mistake_in_a_predicate_has_its_place_in_the_file():
    where = Location("headrace.yml", 7, 20)
    with pytest.raises(InputError) as caught:
        read_predicate("total > 5 AND\n  nte = 'x'", where, SHOP["orders"])
    (problem,) = caught.value.problems
    assert (str(problem.where), problem.message) == ("headrace.yml:8:3", 'column "nte" does not exist')
    with pytest.raises(InputError) as caught:
        read_predicate("totl > 5", where, SHOP["orders"])
    assert str(caught.value.problems[0].where) == "headrace.yml:7:20"


@pytest.mark.parametrize("text", ["", "total >", "total", "sum(total) > 5", "total > 5 FROM orders", "((("])
def test_what_is_no_condition_is_a_mistake(text: str):
    with pytest.raises(InputError) as caught:
        read_predicate(text, Location("headrace.yml", 7, 20), SHOP["orders"])
    assert all(problem.where is not None and problem.where.line == 7 for problem in caught.value.problems)


def test_a_subquery_in_a_predicate_is_refused():
    with pytest.raises(UnsupportedSql):
        read_predicate("id IN (SELECT order_id FROM items)", Location("headrace.yml"), SHOP["orders"])
