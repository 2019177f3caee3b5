-- Queries in PostgreSQL's dialect over a table whose columns say their types in PostgreSQL: each means what PostgreSQL answers.

SELECT id, data || other AS a, data - 'a' AS b, data -> 'a' AS c FROM o

SELECT id, data = other AS a, data <> other AS b, data IS DISTINCT FROM other AS c, data = '{"a": 1.0}' AS d FROM o

SELECT id, d || '{"z": 1}' AS a FROM (SELECT id, data AS d FROM o) q WHERE d @> '{"a": 1}'

WITH q (n, d) AS (SELECT id, data FROM o) SELECT p.n, p.d || q.d AS a FROM q JOIN q p USING (n)

SELECT id, data || coalesce(other, '{}') AS a, CASE WHEN id > 1 THEN data ELSE other END || '[]' AS b FROM o

SELECT d || '[1]' AS a FROM (SELECT data AS d FROM o UNION ALL SELECT other FROM o) q

SELECT id, json_build_object('t', name, 'u', u, 'd', data, 'n', id) AS a, jsonb_build_array(name, data) AS b FROM o

SELECT json_agg(name ORDER BY id, name COLLATE "C") AS a FROM o

SELECT id, tz AT TIME ZONE 'Europe/Paris' AS a, ts AT TIME ZONE 'Europe/Paris' AS b, timezone('America/New_York', tz) AS c FROM o

SELECT id, date_trunc('day', tz AT TIME ZONE 'Asia/Tokyo') AS a, (tz + interval '1 day') AT TIME ZONE 'Europe/Paris' AS b, (tz AT TIME ZONE 'Europe/Paris') AT TIME ZONE 'Asia/Tokyo' AS c FROM o

SELECT (t AT TIME ZONE 'Europe/Paris')::date AS day, count(*) AS n FROM (SELECT max(tz) AS t FROM o GROUP BY id) q GROUP BY 1

SELECT data || name AS a, coalesce(tz, '2024-01-01') AT TIME ZONE 'Europe/Paris' AS b FROM o

SELECT id, u = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11' AS a, u IN ('{a0eebc999c0b4ef8bb6d6bb9bd380a11}') AS b, u::text AS c, u > '10000000-0000-0000-0000-000000000000' AS d, u BETWEEN 'A0000000-0000-0000-0000-000000000000' AND 'B0000000000000000000000000000000' AS e FROM o

SELECT count(*) AS n, u, max(id) AS m FROM o WHERE u NOT IN ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11') GROUP BY u

SELECT id, tz AT TIME ZONE CASE id WHEN 1 THEN 'Europe/Paris' WHEN 2 THEN 'america/new_york' ELSE 'utc' END AS a, ts AT TIME ZONE CASE id WHEN 1 THEN 'Europe/Paris' WHEN 2 THEN 'America/New_York' END AS b FROM o
