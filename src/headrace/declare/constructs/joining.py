"""Joins, and subqueries that become joins."""

from __future__ import annotations

from headrace.declare.constructs.construct import Construct

SIDES = "both sides, sorted by the columns that are equal"
PARTNERS = "the rows of the other side with an equal key"

JOINING = (
    Construct(
        "`JOIN ... ON`, `USING`, comma",
        "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer AND o.day >= c.since",
        SIDES,
        PARTNERS,
    ),
    Construct(
        "`CROSS JOIN`",
        "SELECT o.id, c.id AS other FROM orders o CROSS JOIN customers c",
        "both sides",
        "the other side",
    ),
    Construct(
        "`JOIN` within a distance in time (inner joins without an equality)",
        "SELECT o.id, v.page FROM orders o JOIN visits v ON v.at BETWEEN o.placed - INTERVAL '1 hour' AND o.placed",
        "both sides, sorted by stretch of time",
        "the rows of the other side in two stretches, each as long as the bounds are apart",
    ),
    Construct(
        "`JOIN` on computed values (inner joins without an equality of columns)",
        "SELECT o.id, v.page FROM orders o JOIN visits v ON date_trunc('hour', v.at) = date_trunc('hour', o.placed)",
        "both sides, sorted by the values",
        "the rows of the other side with equal values",
    ),
    Construct(
        "`JOIN` by other comparisons, such as `x BETWEEN b.low AND b.high`",
        "SELECT o.id, c.name FROM orders o JOIN customers c ON o.day > c.since AND o.customer <> c.id",
        "both sides",
        "the other side",
    ),
    Construct(
        "`LEFT`, `RIGHT`, `FULL JOIN`",
        "SELECT c.name, o.id FROM customers c LEFT JOIN orders o ON o.customer = c.id",
        f"{SIDES}, with counts of partners",
        PARTNERS,
    ),
    Construct(
        "`LEFT SEMI`, `LEFT ANTI JOIN`",
        "SELECT c.name FROM customers c LEFT ANTI JOIN orders o ON o.customer = c.id",
        f"{SIDES}, with counts of partners",
        PARTNERS,
    ),
    Construct(
        "`[NOT] EXISTS`",
        "SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.paid)",
        f"{SIDES}, with counts of partners",
        PARTNERS,
    ),
    Construct(
        "`[NOT] IN (SELECT ...)`",
        "SELECT id FROM orders WHERE customer NOT IN (SELECT id FROM customers WHERE country = 'NZ')",
        f"{SIDES}, with counts of partners",
        f"{PARTNERS}; the first or last NULL on the right: all rows of the left",
    ),
    Construct(
        "`NATURAL JOIN`",
        "SELECT id, name, page FROM customers NATURAL JOIN (SELECT customer AS id, page FROM visits)",
        SIDES,
        PARTNERS,
    ),
    Construct(
        "`EXISTS`, `IN` under `OR` and `NOT`",
        "SELECT id FROM orders o WHERE paid OR EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer)",
        f"{SIDES}, and a count for each key of the inner query",
        "the rows for which the answer changes",
    ),
    Construct(
        "queries as values; more than one row fails",
        "SELECT id, (SELECT count(*) FROM customers c WHERE c.since > o.day) AS newer FROM orders o",
        "both sides; for correlations other than `=`, also the distinct values of the outer columns",
        "the rows for which the value changes",
    ),
    Construct(
        "the first row as a value",
        "SELECT id, (SELECT v.page FROM visits v WHERE v.customer = c.id ORDER BY v.at DESC, v.page LIMIT 1) AS page "
        "FROM customers c",
        f"{SIDES}, and the first rows of each key",
        "the rows for which the value changes",
    ),
    Construct(
        "`LATERAL`",
        "SELECT c.name, l.n, l.last FROM customers c CROSS JOIN LATERAL "
        "(SELECT count(*) AS n, max(o.day) AS last FROM orders o WHERE o.customer = c.id) l",
        "that of the inner query, for each value of the columns that it reads",
        PARTNERS,
    ),
    Construct(
        "aggregates as values",
        "SELECT id FROM orders o WHERE total > (SELECT avg(total) FROM orders i WHERE i.customer = o.customer)",
        f"{SIDES}, and that of the aggregate",
        "the rows for which the value changes",
    ),
)
