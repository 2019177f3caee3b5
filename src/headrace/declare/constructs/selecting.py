"""Columns, conditions and sets of rows."""

from __future__ import annotations

from headrace.declare.constructs.construct import NOTHING, ONE_ROW, Construct

SELECTING = (
    Construct("`*`, `t.*`", "SELECT o.*, c.name FROM orders o JOIN customers c ON c.id = o.customer", NOTHING, ONE_ROW),
    Construct("`* EXCEPT (...)`", "SELECT * EXCEPT (weight, placed) FROM orders", NOTHING, ONE_ROW),
    Construct(
        "`* REPLACE (... AS c)`, `* RENAME (c AS d)`",
        "SELECT * REPLACE (upper(status) AS status) RENAME (weight AS kilos) FROM orders",
        NOTHING,
        ONE_ROW,
        in_spark="SELECT id, customer, total, quantity, weight AS kilos, upper(status) AS status, day, placed, paid "
        "FROM orders",
    ),
    Construct(
        "aliases that later items use",
        "SELECT total * 2 AS doubled, doubled + 1 AS more FROM orders",
        NOTHING,
        ONE_ROW,
    ),
    Construct("`WHERE`", "SELECT id FROM orders WHERE total > 10 AND status <> 'open'", NOTHING, ONE_ROW),
    Construct(
        "`WITH` (each use is expanded)",
        "WITH paid AS (SELECT * FROM orders WHERE paid) SELECT customer, count(*) AS n FROM paid GROUP BY customer",
        "that of the queries inside",
        "that of the queries inside",
    ),
    Construct(
        "queries in `FROM`, `t AS x(a, b)`",
        "SELECT x.a FROM (SELECT id, total FROM orders) AS x(a, b) WHERE x.b > 1",
        NOTHING,
        ONE_ROW,
    ),
    Construct("`SELECT` without `FROM`", "SELECT 1 AS one, 'a' AS letter", "one row", NOTHING),
    Construct(
        "`VALUES`",
        "SELECT o.id, v.name FROM orders o JOIN (VALUES (1, 'one'), (2, 'two')) AS v(id, name) ON v.id = o.customer",
        "its rows",
        "as for rows of a table",
    ),
    Construct("`SELECT DISTINCT`", "SELECT DISTINCT status, day FROM orders", "a count for each row", ONE_ROW),
    Construct("`UNION ALL`", "SELECT customer FROM orders UNION ALL SELECT customer FROM visits", NOTHING, ONE_ROW),
    Construct(
        "`UNION`, `INTERSECT`, `EXCEPT`",
        "SELECT customer FROM orders EXCEPT SELECT customer FROM visits",
        "a count for each row and side",
        ONE_ROW,
    ),
    Construct(
        "`INTERSECT ALL`, `EXCEPT ALL`, `MINUS`, sets in parentheses",
        "SELECT customer FROM orders EXCEPT ALL (SELECT customer FROM visits MINUS SELECT id FROM customers)",
        "the rows of both sides, and a number for each copy of a row",
        "the changed row and its copies",
    ),
    Construct(
        "`LATERAL VIEW [OUTER] explode(...)`, `posexplode`, `stack`",
        "SELECT id, word FROM orders LATERAL VIEW explode(split(status, ' ')) AS word",
        NOTHING,
        "the changed row, once for each element",
    ),
    Construct(
        "`UNPIVOT [INCLUDE NULLS] (v FOR c IN (a, b))`",
        "SELECT * FROM (SELECT id, total, weight FROM orders) UNPIVOT (value FOR what IN (total AS total, weight))",
        NOTHING,
        "the changed row, once for each column",
    ),
    Construct(
        "`unnest(...)`, `generate_series`, `range` in `FROM`; `explode` in `SELECT`",
        "SELECT id, explode(sequence(0, 2)) AS number FROM orders",
        NOTHING,
        "the changed row, once for each element",
    ),
    Construct(
        "filters on time: a time compared with `now()`, `current_date`, `date_trunc('month', now())`",
        "SELECT id FROM orders WHERE placed > now() - INTERVAL '7 days'",
        "the rows that have not left yet",
        "the changed row; each row once more when it leaves",
    ),
    Construct(
        "such conditions with `OR` and `NOT`, and as values",
        "SELECT id, CASE WHEN placed > now() - INTERVAL '1 hour' THEN 'new' ELSE 'old' END AS age "
        "FROM orders WHERE paid OR placed > now() - INTERVAL '7 days'",
        "the rows that change later",
        "the changed row; each row once more when its condition changes",
    ),
    Construct(
        "`current_date`, `hour(now())`, `date_trunc('minute', now())` as values",
        "SELECT id, datediff(CAST(now() AS date), day) AS age FROM orders",
        "all rows, and a clock",
        "the changed row; all rows once a day, hour or minute",
    ),
)
