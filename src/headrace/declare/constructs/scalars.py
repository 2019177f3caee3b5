"""Values of one row. Functions are listed by name elsewhere: here is what has a syntax or a rule of its own."""

from __future__ import annotations

from headrace.declare.constructs.construct import NOTHING, ONE_ROW, Construct, HowKept

SCALARS = (
    Construct(
        "`CASE`", "SELECT id, CASE WHEN total > 100 THEN 'large' ELSE 'small' END AS size FROM orders", NOTHING, ONE_ROW
    ),
    Construct(
        "`CAST`, `x::type`", "SELECT id::string AS id, CAST(total AS int) AS whole FROM orders", NOTHING, ONE_ROW
    ),
    Construct(
        "dates and `INTERVAL`",
        "SELECT day + INTERVAL '1 month' AS due, placed - INTERVAL 2 HOURS AS earlier FROM orders",
        NOTHING,
        ONE_ROW,
    ),
    Construct(
        "`LIKE`, `ILIKE`, `RLIKE`",
        "SELECT name FROM customers WHERE name LIKE 'A%' OR name ILIKE '%b' OR name RLIKE '^[0-9]+$'",
        NOTHING,
        ONE_ROW,
    ),
    Construct(
        "`LIKE ANY`, `LIKE ALL`, also with `NOT` and `ILIKE`",
        "SELECT name, name LIKE ANY ('A%', '%b') AS a, name NOT LIKE ALL ('x%', country) AS b, "
        "name NOT LIKE ANY ('x%', '%') AS c, name ILIKE ALL ('A%', '%') AS d, name LIKE ANY ('A%', NULL) AS e "
        "FROM customers",
        NOTHING,
        ONE_ROW,
    ),
    Construct(
        "`IS DISTINCT FROM`, `<=>`",
        "SELECT id FROM orders WHERE status IS DISTINCT FROM 'open' AND customer <=> NULL",
        NOTHING,
        ONE_ROW,
    ),
    Construct(
        "`EXTRACT`, `date_part`",
        "SELECT EXTRACT(YEAR FROM day) AS year, date_part('hour', placed) AS hour FROM orders",
        NOTHING,
        ONE_ROW,
    ),
    Construct(
        "arrays: `array(...)`, `x[0]`, `size`, `array_contains` and more",
        "SELECT id, array(status, 'x')[0] AS status, array_contains(split(status, ','), 'open') AS open FROM orders",
        NOTHING,
        ONE_ROW,
    ),
    Construct(
        "`transform`, `filter`, `exists`, `forall` with `x -> ...`",
        "SELECT id, transform(array(id, customer), x -> x + 1) AS more FROM orders",
        NOTHING,
        ONE_ROW,
    ),
    Construct(
        "JSON: `get_json_object`, `json_array_length`, `from_json(x, 'array<...>')`, `json_tuple`",
        "SELECT id, get_json_object(status, '$.tags[0].name') AS tag, json_array_length(status) AS tags FROM orders",
        NOTHING,
        ONE_ROW,
    ),
    Construct("random numbers", "SELECT id, rand() AS chance FROM orders", kept=HowKept.NOT),
)
