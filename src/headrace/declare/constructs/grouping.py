"""Groups and aggregates."""

from __future__ import annotations

from headrace.declare.constructs.construct import Construct

TOTALS = "totals for each group"
ONE_GROUP = "one group"
ROWS = "the inputs of the aggregates for each row"
GROUP_ROWS = "the rows of one group"

GROUPING = (
    Construct(
        "`count`, `sum`, `avg`",
        "SELECT customer, count(*) AS n, sum(total) AS total, avg(total) AS mean FROM orders GROUP BY customer",
        TOTALS,
        ONE_GROUP,
    ),
    Construct(
        "`min`, `max`",
        "SELECT customer, min(total) AS least, max(placed) AS last FROM orders GROUP BY customer",
        "the input, sorted by group; the extremes of each group",
        "one group; its rows if the extreme itself leaves",
    ),
    Construct(
        "`count_if`, `FILTER (WHERE ...)`",
        "SELECT day, count_if(paid) AS paid, sum(total) FILTER (WHERE NOT paid) AS owed FROM orders GROUP BY day",
        TOTALS,
        ONE_GROUP,
    ),
    Construct(
        "`DISTINCT` in an aggregate",
        "SELECT day, count(DISTINCT customer) AS customers FROM orders GROUP BY day",
        "a count for each group and value",
        ONE_GROUP,
    ),
    Construct(
        "`HAVING`",
        "SELECT customer, sum(total) AS total FROM orders GROUP BY customer HAVING count(*) > 1",
        TOTALS,
        ONE_GROUP,
    ),
    Construct(
        "`GROUP BY` expressions, positions, aliases, `ALL`",
        "SELECT year(day) AS year, status, count(*) AS n FROM orders GROUP BY ALL",
        TOTALS,
        ONE_GROUP,
    ),
    Construct(
        "aggregates without `GROUP BY`", "SELECT count(*) AS n, sum(total) AS total FROM orders", TOTALS, ONE_GROUP
    ),
    Construct(
        "`bool_and`, `bool_or`, `every`, `some`, `any`",
        "SELECT customer, bool_and(paid) AS all_paid, bool_or(total > 100) AS any_large FROM orders GROUP BY customer",
        ROWS,
        GROUP_ROWS,
    ),
    Construct(
        "`any_value`, `first` (the smallest value), `last` (the largest)",
        "SELECT customer, any_value(status) AS status, first(day) AS day FROM orders GROUP BY customer",
        ROWS,
        GROUP_ROWS,
        is_open=True,
    ),
    Construct(
        "`variance`, `var_pop`, `stddev`, `stddev_pop`, `skewness`, `kurtosis`",
        "SELECT customer, stddev(total) AS deviation, var_pop(total) AS variance FROM orders GROUP BY customer",
        TOTALS,
        ONE_GROUP,
    ),
    Construct(
        "`corr`, `covar_pop`, `covar_samp`, `regr_slope`, `regr_intercept`, `regr_r2` and the other `regr_...`",
        "SELECT customer, corr(total, id) AS together FROM orders GROUP BY customer",
        TOTALS,
        ONE_GROUP,
    ),
    Construct(
        "`min_by`, `max_by` (of several, the smallest value)",
        "SELECT customer, max_by(id, placed) AS latest, min_by(status, total) AS status FROM orders GROUP BY customer",
        ROWS,
        GROUP_ROWS,
        is_open=True,
    ),
    Construct(
        "`median`, `percentile`, `percentile_cont`, `percentile_disc`",
        "SELECT customer, median(total) AS middle, percentile_disc(0.9) WITHIN GROUP (ORDER BY total DESC) AS low "
        "FROM orders GROUP BY customer",
        ROWS,
        GROUP_ROWS,
    ),
    Construct(
        "`approx_count_distinct`, `approx_percentile` (both exact)",
        "SELECT day, approx_count_distinct(customer) AS customers, approx_percentile(total, 0.5) AS middle "
        "FROM orders GROUP BY day",
        ROWS,
        GROUP_ROWS,
    ),
    Construct(
        "`mode` (of several, the smallest value)",
        "SELECT customer, mode(status) AS usual FROM orders GROUP BY customer",
        ROWS,
        GROUP_ROWS,
        is_open=True,
    ),
    Construct(
        "`bit_and`, `bit_or`, `bit_xor`",
        "SELECT customer, bit_or(id) AS bits FROM orders GROUP BY customer",
        ROWS,
        GROUP_ROWS,
    ),
    Construct(
        "`array_agg(x [ORDER BY ...])`, `collect_list`, `collect_set` (without `ORDER BY`, ascending)",
        "SELECT customer, array_agg(id) AS ids, collect_set(status) AS statuses FROM orders GROUP BY customer",
        ROWS,
        GROUP_ROWS,
        is_open=True,
    ),
    Construct(
        "`string_agg(x, ', ' [ORDER BY ...])`, `listagg`, `group_concat` (without `ORDER BY`, ascending)",
        "SELECT customer, listagg(status, ', ') WITHIN GROUP (ORDER BY placed, status) AS statuses, "
        "listagg(DISTINCT status, '/') WITHIN GROUP (ORDER BY status) AS different FROM orders GROUP BY customer",
        ROWS,
        GROUP_ROWS,
    ),
    Construct(
        "`GROUPING SETS`, `ROLLUP`, `CUBE`, `WITH ROLLUP`, `grouping`, `grouping_id`",
        "SELECT day, status, sum(total) AS total, grouping_id() AS level FROM orders GROUP BY ROLLUP (day, status)",
        "that of one `GROUP BY` for each set",
        "one group of each set",
    ),
    Construct(
        "`PIVOT (... FOR c IN (...))`",
        "SELECT * FROM (SELECT customer, status, total FROM orders) PIVOT (sum(total) AS total, count(*) AS n "
        "FOR status IN ('open' AS open, 'paid' AS paid))",
        "those of its aggregates",
        ONE_GROUP,
    ),
)
