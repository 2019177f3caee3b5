"""First rows, rankings and window functions."""

from __future__ import annotations

from headrace.declare.constructs.construct import Construct

FIRST_ROWS = "the rows shown and as many again, and the input sorted by partition"
IN_ORDER = "all rows, sorted by partition and order"
WITH_TALLIES = "all rows, sorted by partition and order, with what functions have made of the rows up to each"
NEARBY = "the rows around the changed one, as far as functions look"
FROM_THERE = "the rows of its partition from the changed one on: the last row costs itself"
EVERYWHERE = "the partition"
OF_FIRST_ROWS = "the rows kept of one partition; the partition when its reserve is used up"

ORDERING = (
    Construct(
        "`ORDER BY ... LIMIT [OFFSET]`",
        "SELECT id, total FROM orders ORDER BY total DESC, id LIMIT 3 OFFSET 1",
        FIRST_ROWS,
        OF_FIRST_ROWS,
    ),
    Construct(
        "`ROW_NUMBER`, `RANK`, `DENSE_RANK` up to a bound",
        "SELECT customer, id FROM (SELECT customer, id, "
        "ROW_NUMBER() OVER (PARTITION BY customer ORDER BY placed DESC, id) AS place FROM orders) WHERE place <= 2",
        FIRST_ROWS,
        OF_FIRST_ROWS,
    ),
    Construct(
        "`QUALIFY`",
        "SELECT customer, id FROM orders QUALIFY RANK() OVER (PARTITION BY customer ORDER BY total DESC) = 1",
        FIRST_ROWS,
        OF_FIRST_ROWS,
    ),
    Construct(
        "`lag`, `lead`",
        "SELECT customer, id, total - lag(total) OVER (PARTITION BY customer ORDER BY placed, id) AS more FROM orders",
        IN_ORDER,
        NEARBY,
        is_open=True,
    ),
    Construct(
        "`ROWS BETWEEN n PRECEDING AND ...`: `sum`, `count`, `avg`, `min`, `max`, `stddev`, `variance` and their kin",
        "SELECT customer, avg(total) OVER (PARTITION BY customer ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) "
        "AS average FROM orders",
        IN_ORDER,
        NEARBY,
        is_open=True,
    ),
    Construct(
        "`RANGE BETWEEN ... PRECEDING AND ...` over numbers, dates and timestamps",
        "SELECT id, count(*) OVER (ORDER BY placed RANGE BETWEEN INTERVAL '7' DAY PRECEDING AND CURRENT ROW) AS week "
        "FROM orders",
        IN_ORDER,
        NEARBY,
    ),
    Construct(
        "aggregates so far (no frame, or one that begins with `UNBOUNDED PRECEDING`)",
        "SELECT day, id, sum(quantity) OVER (PARTITION BY customer ORDER BY day) AS so_far FROM orders",
        WITH_TALLIES,
        FROM_THERE,
    ),
    Construct(
        "`ROW_NUMBER`, `RANK`, `DENSE_RANK` without a bound",
        "SELECT id, RANK() OVER (ORDER BY total DESC) AS place FROM orders",
        WITH_TALLIES,
        FROM_THERE,
    ),
    Construct(
        "`first_value`, `last_value`, `nth_value`, also with `IGNORE NULLS`",
        "SELECT id, first_value(status) IGNORE NULLS OVER (PARTITION BY customer ORDER BY id) AS first FROM orders",
        WITH_TALLIES,
        FROM_THERE,
        is_open=True,
    ),
    Construct(
        "aggregates of whole partitions, `ntile`, `percent_rank`, `cume_dist`, frames to `UNBOUNDED FOLLOWING`",
        "SELECT id, total / sum(total) OVER (PARTITION BY customer) AS share, ntile(4) OVER (ORDER BY id) AS part "
        "FROM orders WHERE total > 0",
        IN_ORDER,
        EVERYWHERE,
        is_open=True,
    ),
    Construct(
        "other aggregates over frames: `array_agg`, `string_agg`, `count(DISTINCT ...)`, percentiles, `mode`, "
        "`min_by`, `bit_and` and their kin",
        "SELECT id, array_agg(id) OVER (PARTITION BY customer ORDER BY id) AS ids, "
        "count(DISTINCT status) OVER (PARTITION BY customer) AS statuses FROM orders",
        IN_ORDER,
        EVERYWHERE,
        is_open=True,
        in_spark="SELECT id, array_agg(id) OVER (PARTITION BY customer ORDER BY id) AS ids, "
        "CAST(size(collect_set(status) OVER (PARTITION BY customer)) AS bigint) AS statuses FROM orders",
    ),
    Construct(
        "`GROUPS BETWEEN n PRECEDING AND ...`",
        "SELECT id, sum(total) OVER (ORDER BY day GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two_days FROM orders",
        WITH_TALLIES,
        FROM_THERE,
        in_spark="SELECT id, sum(total) OVER (ORDER BY place RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS two_days "
        "FROM (SELECT *, dense_rank() OVER (ORDER BY day) AS place FROM orders)",
    ),
    Construct(
        "windows over aggregates, `WINDOW w AS (...)`, several windows",
        "SELECT day, sum(total) AS sales, sum(sum(total)) OVER w AS so_far, lag(sum(total)) OVER w AS before "
        "FROM orders GROUP BY day WINDOW w AS (ORDER BY day)",
        WITH_TALLIES,
        FROM_THERE,
    ),
    Construct(
        "`QUALIFY` over any window function",
        "SELECT id, customer FROM orders QUALIFY count(*) OVER (PARTITION BY customer) > 1",
        IN_ORDER,
        EVERYWHERE,
    ),
)
