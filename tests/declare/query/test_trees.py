"""What queries mean, as trees of the algebra."""

import pytest

from headrace.model.expr import Call, Column
from headrace.model.relation import Join, JoinKind, Projection, Scan, TopK
from headrace.model.types import BIGINT
from tests.declare.query.reading import meaning, relation


def lines(*texts: str) -> str:
    return "\n".join(texts)


def test_a_source_by_itself_is_a_scan_with_its_columns_named():
    tree = relation("SELECT line, order_id FROM items AS i")
    assert tree == Projection(
        Scan("items", "i", ("order_id", "line", "product", "price"), tree.input.types),  # type: ignore[union-attr]
        tree.outputs,  # type: ignore[union-attr]
    )
    assert meaning("SELECT line, order_id FROM items AS i") == lines(
        "project line = i.line, order_id = i.order_id",
        "  scan items as i",
    )


def test_names_are_found_without_regard_to_case_and_keep_their_declared_spelling():
    assert meaning("select LINE, I.`Price` as p from Items i") == lines(
        "project line = i.line, p = i.price",
        "  scan items as i",
    )


def test_a_join_is_its_condition_wherever_it_is_written():
    joined = lines(
        "project id = o.id, price = i.price",
        "  join inner on o.id = i.order_id",
        "    scan orders as o",
        "    scan items as i",
    )
    assert meaning("SELECT o.id, price FROM orders o JOIN items i ON o.id = i.order_id") == joined
    assert meaning("SELECT o.id, price FROM orders o, items i WHERE o.id = i.order_id") == joined


def test_what_can_fail_stays_behind_the_conditions_that_guard_it():
    guarded = "note RLIKE '^[0-9]+$' AND CAST(note AS bigint) = i.order_id"
    assert meaning(f"SELECT o.id FROM orders o, items i WHERE {guarded}") == lines(
        "project id = o.id",
        "  filter rlike(o.note, '^[0-9]+$') and cast(o.note as bigint) = i.order_id",
        "    join inner",
        "      scan orders as o",
        "      scan items as i",
    )


def test_a_condition_that_all_branches_of_an_or_share_joins_the_tables():
    assert meaning(
        "SELECT o.id FROM orders o, items i WHERE (o.id = i.order_id AND line = 1) OR (o.id = i.order_id AND line = 2)"
    ) == lines(
        "project id = o.id",
        "  filter i.line = 1 or i.line = 2",
        "    join inner on o.id = i.order_id",
        "      scan orders as o",
        "      scan items as i",
    )


def test_a_derived_table_leaves_no_operator_behind():
    assert meaning("SELECT q.twice + 1 AS x FROM (SELECT quantity * 2 AS twice FROM orders WHERE id > 5) q") == lines(
        "project x = q/orders.quantity * 2 + 1",
        "  filter q/orders.id > 5",
        "    scan orders as q/orders",
    )


def test_columns_that_an_outer_join_fills_with_nulls_are_computed_before_it():
    assert meaning(
        "SELECT c.id, q.seen FROM customers c LEFT JOIN (SELECT customer, 1 AS seen FROM orders) q ON c.id = q.customer"
    ) == lines(
        "project id = c.id, seen = q.seen",
        "  join left on c.id = q/orders.customer",
        "    scan customers as c",
        "    project q/orders.customer, q.seen = 1",
        "      scan orders as q/orders",
    )


def test_using_merges_the_columns_of_both_sides():
    assert meaning(
        "SELECT * FROM (SELECT id FROM orders) a FULL JOIN (SELECT id FROM customers) b USING (id)"
    ) == lines(
        "project id = coalesce(a/orders.id, b/customers.id)",
        "  join full on a/orders.id = b/customers.id",
        "    scan orders as a/orders",
        "    scan customers as b/customers",
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM items i WHERE i.order_id = o.id AND i.price > 5)",
        "SELECT o.id FROM orders o LEFT SEMI JOIN (SELECT order_id FROM items WHERE price > 5) i ON i.order_id = o.id",
    ],
)
def test_exists_is_a_semi_join(sql: str):
    tree = relation(sql)
    assert isinstance(tree, Projection)
    assert isinstance(tree.input, Join)
    assert tree.input.kind == JoinKind.SEMI
    assert {type(side).__name__ for side in (tree.input.left, tree.input.right)} == {"Scan", "Filter"}


def test_not_in_minds_nulls_unless_neither_side_can_have_them():
    nullable = "SELECT id FROM orders WHERE customer NOT IN (SELECT customer FROM clicks)"
    assert "join anti on not (orders.customer = in/clicks.customer) <=> false" in meaning(nullable)
    keys = "SELECT id FROM orders WHERE id NOT IN (SELECT order_id FROM items)"
    assert "join anti on orders.id = in/items.order_id" in meaning(keys)
    proven = "SELECT id FROM orders WHERE customer IS NOT NULL AND customer NOT IN (SELECT id FROM customers)"
    assert "join anti on orders.customer = in/customers.id" in meaning(proven)


def test_an_uncorrelated_aggregate_is_a_product_with_its_one_row():
    assert meaning("SELECT id FROM orders WHERE total > (SELECT avg(total) FROM orders)") == lines(
        "project id = orders.id",
        "  filter cast(orders.total as decimal(14,6)) > scalar/avg",
        "    join inner",
        "      scan orders",
        "      aggregate: scalar/avg = avg(scalar/orders.total)",
        "        scan orders as scalar/orders",
    )


def test_a_correlated_aggregate_is_grouped_and_joined():
    assert meaning("SELECT id, (SELECT count(*) FROM items WHERE order_id = o.id) AS n FROM orders o") == lines(
        "project id = o.id, n = coalesce(scalar/count, 0)",
        "  join left on scalar/items.order_id = o.id",
        "    scan orders as o",
        "    aggregate by scalar/items.order_id: scalar/count = count(*)",
        "      scan items as scalar/items",
    )


def test_a_comparison_with_a_correlated_aggregate_needs_a_match():
    tree = meaning("SELECT id FROM orders o WHERE total > (SELECT sum(price) FROM items WHERE order_id = o.id)")
    assert "join inner on scalar/items.order_id = o.id" in tree
    counted = meaning("SELECT id FROM orders o WHERE 0 = (SELECT count(*) FROM items WHERE order_id = o.id)")
    assert "join left on scalar/items.order_id = o.id" in counted


def test_groups_have_keys_then_aggregates_and_equal_aggregates_are_computed_once():
    assert meaning(
        "SELECT customer, sum(total) AS s, sum(total) / count(*) AS mean FROM orders GROUP BY customer HAVING s > 10"
    ) == lines(
        "project customer = orders.customer, s, mean = s / cast(count as decimal(20,0))",
        "  filter s > 10.00",
        "    aggregate by orders.customer: s = sum(orders.total), count = count(*)",
        "      scan orders",
    )


def test_filtered_and_conditional_counts_are_counts_of_cases():
    assert meaning(
        "SELECT count(*) FILTER (WHERE total > 5) AS a, count_if(id = 1) AS b, sum(total) FILTER (WHERE id = 1) AS c, "
        "count(1) AS d, count(id, note) AS e FROM orders"
    ) == lines(
        "aggregate: a = count(case when orders.total > 5.00 then 1 end), "
        "b = count(case when orders.id = 1 then 1 end), c = sum(case when orders.id = 1 then orders.total end), "
        "d = count(*), e = count(case when orders.id is not null and orders.note is not null then 1 end)",
        "  scan orders",
    )


def test_a_time_window_is_two_keys():
    assert meaning(
        "SELECT window.start AS start, page, count(*) AS n FROM clicks "
        "GROUP BY window(at, '10 minutes', '5 minutes'), page"
    ) == lines(
        "project start = window.start, page = clicks.page, n",
        "  aggregate by window.start, window.end, clicks.page: n = count(*)",
        "    windows of 10 min every 5 min by clicks.at: window.start, window.end",
        "      scan clicks",
    )


def test_order_by_with_limit_is_the_first_rows_of_the_result():
    assert meaning("SELECT id, total FROM orders ORDER BY total DESC, 1 LIMIT 10 OFFSET 5") == lines(
        "top 10 after 5 order total desc, id",
        "  project id = orders.id, total = orders.total",
        "    scan orders",
    )


def test_a_sort_key_that_is_not_selected_is_carried_to_the_top_and_dropped():
    assert meaning("SELECT id FROM orders ORDER BY upper(note) NULLS LAST LIMIT 1") == lines(
        "project id",
        "  top 1 order order nulls last",
        "    project id = orders.id, order = upper(orders.note)",
        "      scan orders",
    )


RANKED = "SELECT {} FROM (SELECT *, row_number() OVER (PARTITION BY customer ORDER BY total DESC) AS n FROM orders) q"


def test_a_ranking_with_a_bound_is_the_first_rows_of_each_group():
    assert meaning(RANKED.format("id") + " WHERE n <= 3") == lines(
        "project id = q/orders.id",
        "  top 3 by q/orders.customer order q/orders.total desc",
        "    scan orders as q/orders",
    )


@pytest.mark.parametrize(
    ("condition", "first"),
    [
        ("n = 1", "top 1 by"),
        ("n < 4", "top 3 by"),
        ("4 > n", "top 3 by"),
        ("n BETWEEN 2 AND 4", "top 3 after 1 by"),
        ("n > 2 AND n <= 3", "top 1 after 2 by"),
        ("n = 5", "top 1 after 4 by"),
        ("n < 1", "top 0 by"),
    ],
)
def test_bounds_of_a_rank_are_limit_and_offset(condition: str, first: str):
    assert meaning(f"{RANKED.format('id')} WHERE {condition}").splitlines()[1].strip().startswith(first)


def test_a_rank_that_is_selected_is_a_field():
    tree = relation(RANKED.format("id, n") + " WHERE n <= 3")
    assert isinstance(tree, Projection)
    assert isinstance(tree.input, TopK)
    assert tree.input.rank_name == "q/row_number"
    assert tree.outputs[1].expr == Call("cast", (Column("q/row_number", BIGINT),), tree.outputs[1].expr.type)


def test_qualify_bounds_a_ranking_in_its_own_query():
    assert meaning("SELECT id FROM orders QUALIFY rank() OVER (PARTITION BY customer ORDER BY total) = 1") == lines(
        "project id = orders.id",
        "  top 1 rank by orders.customer order orders.total",
        "    scan orders",
    )


def test_union_all_has_one_level_and_common_types():
    assert meaning(
        "SELECT id, total FROM orders UNION ALL SELECT line, price FROM items UNION ALL SELECT 1, NULL FROM clicks"
    ) == lines(
        "union all",
        "  project id = orders.id, total = orders.total",
        "    scan orders",
        "  project id = cast(items.line as bigint), total = cast(items.price as decimal(10,2))",
        "    scan items",
        "  project id = 1, total = null",
        "    scan clicks",
    )


def test_except_and_intersect_compare_whole_rows_with_nulls_equal():
    assert meaning("SELECT customer, note FROM orders EXCEPT SELECT id, name FROM customers") == lines(
        "join anti on customer <=> except.customer and note <=> except.note",
        "  distinct",
        "    project customer = orders.customer, note = orders.note",
        "      scan orders",
        "  project except.customer = except/customers.id, except.note = except/customers.name",
        "    scan customers as except/customers",
    )


def test_each_use_of_a_common_table_expression_is_expanded():
    assert meaning(
        "WITH a AS (SELECT id FROM orders WHERE id > 5) SELECT x.id FROM a x JOIN a y ON x.id = y.id"
    ) == lines(
        "project id = x/orders.id",
        "  join inner on x/orders.id = y/orders.id",
        "    filter x/orders.id > 5",
        "      scan orders as x/orders",
        "    filter y/orders.id > 5",
        "      scan orders as y/orders",
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("paid > now() - INTERVAL '7 days'", "orders.paid > now() - interval '7 days'"),
        ("current_timestamp() <= paid", "orders.paid >= now()"),
        ("now() - paid < INTERVAL 1 DAY", "orders.paid > now() - interval '1 days'"),
        ("paid + INTERVAL 1 HOUR > current_timestamp", "orders.paid + interval '1:00:00' > now()"),
        ("placed >= current_date()", "cast(orders.placed as timestamp) > now() - interval '1 days'"),
        ("placed > current_date() - 7", "cast(orders.placed as timestamp) > now() - interval '7 days'"),
        ("placed <= date_sub(current_date, 7)", "cast(orders.placed as timestamp) <= now() - interval '7 days'"),
        ("placed < current_date", "cast(orders.placed as timestamp) <= now() - interval '1 days'"),
        (
            "placed = current_date",
            "cast(orders.placed as timestamp) > now() - interval '1 days' "
            "and cast(orders.placed as timestamp) <= now()",
        ),
    ],
)
def test_filters_on_time_compare_a_time_with_now(written: str, meant: str):
    assert meaning(f"SELECT id FROM orders WHERE {written}").splitlines()[1] == f"  filter {meant}"
