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

SELECT id, span < '1 day' AS a, span = '24:00' AS b, span BETWEEN interval '0' AND interval '1 month' AS c, span IS DISTINCT FROM interval '30 days' AS d, span IN ('1 day', interval '1 mon') AS e, span = ANY (ARRAY[interval '1 mon', '2 days']) AS f, (span, id) > (interval '1 day', id) AS g FROM o

SELECT id, ts + span AS a, tz - span AS b, ts::date + span AS c, ts + span * 1.5 AS d, ts + id * interval '1 month 2 days' AS e, ts + 0.5 * interval '1 day' AS f, ts - make_interval(months => 1, hours => id) AS g, opens + span AS h, opens - interval '90 minutes' AS i FROM o

SELECT id, span * 1.5 AS a, span / 3 AS b, -span AS c, span + interval '1 mon 2 days' AS d, interval '1 day' - span AS e, coalesce(span, '36:00') AS f, nullif(span, interval '24 hours') AS g, CASE WHEN id > 1 THEN span ELSE interval '1 week' END AS h, span::text || '!' AS i, justify_hours(span) AS j, justify_days(span) AS k, justify_interval(span) AS l FROM o

SELECT id, extract(epoch FROM span) AS a, extract(day FROM span) AS b, extract(month FROM span) AS c, date_part('hour', span) AS d, extract(second FROM span) AS e, extract(year FROM span) AS f, extract(milliseconds FROM span) AS g FROM o

SELECT id, tz - ts AS a, age(ts, tz::timestamp) AS b, (ts - tz::timestamp) * 2 AS c, ts - '2024-01-01' AS d, ts - tz::timestamp > interval '1 month' AS e, ts - tz::timestamp > span AS f FROM o

SELECT mood, max(extract(epoch FROM span)) AS a, extract(epoch FROM max(span)) AS b, extract(epoch FROM min(span)) AS c, sum(span) AS d, avg(span) AS e, count(span) AS f, count(DISTINCT span) AS g, sum(span) FILTER (WHERE id > 1) AS h FROM o GROUP BY mood

SELECT extract(epoch FROM span) AS a, count(*) AS n FROM o GROUP BY span HAVING span >= '1 day' OR span IS NULL

SELECT id, span IN (SELECT p.span FROM o p WHERE p.id > 1) AS a, span > (SELECT avg(p.span) FROM o p) AS b, count(*) OVER (PARTITION BY span) AS c, rank() OVER (ORDER BY span) AS d FROM o

SELECT extract(epoch FROM s) AS a, extract(epoch FROM lag(s) OVER (ORDER BY s)) AS b FROM (SELECT max(span) AS s FROM o GROUP BY id) q

SELECT id, mood < 'happy' AS a, mood BETWEEN 'calm' AND 'happy' AS b, mood >= (SELECT max(p.mood) FROM o p) AS c, mood > ANY (SELECT p.mood FROM o p WHERE p.id > 1) AS d, rank() OVER (ORDER BY mood) AS e, coalesce(mood, 'sad') > 'sad' AS f FROM o

SELECT id, max(mood) AS a, min(mood) AS b, array_agg(mood ORDER BY mood DESC) AS c FROM o GROUP BY id

SELECT mood FROM o ORDER BY mood DESC NULLS LAST LIMIT 2

SELECT mood AS m FROM (SELECT mood FROM o UNION ALL SELECT mood FROM o) q ORDER BY 1 NULLS FIRST LIMIT 3

SELECT id, opens < '8:45' AS a, opens IN ('12:00:00.5', '08:30') AS b, ts::time AS c, ts::time - opens AS d, opens - time '01:00' AS e, extract(minute FROM opens) AS f, to_char(opens, 'HH12:MI AM') AS g, ts::date + opens AS h, opens::text || name AS i, date_trunc('hour', ts)::time > opens AS j FROM o

SELECT id, grid[2][1] AS a, array_length(grid, 1) AS b, array_length(grid, 2) AS c, cardinality(grid) AS d, 3 = ANY (grid) AS e, grid && ARRAY[5] AS f, array_to_string(grid, ',') AS g FROM o

SELECT id, unnest(grid) AS x FROM o

SELECT jsonb_build_object('s', span, 'o', opens, 'm', mood) AS a, concat(span, '/', opens) AS b, format('%s', span) AS c FROM o

SELECT id, price * rate AS a, rate * rate AS b, price * rate * id AS c, rate * 1.21 AS d, price * 100 AS e, 2 * rate AS f, round(price * rate, 2) AS g FROM o

SELECT sum(price * rate) AS a, sum(price * coalesce(rate, 1)) AS b FROM o

SELECT id, extract(epoch FROM max(span) OVER w) AS a, sum(span) OVER w AS b, avg(span) OVER (PARTITION BY mood) AS c, max(mood) OVER (PARTITION BY id) AS d FROM o WINDOW w AS (ORDER BY id)

SELECT id, regexp_like(name, '^[[:alpha:]]') AS a, regexp_like(name, 'A', 'i') AS b, regexp_count(name, '[[:alpha:]]') AS c, regexp_substr(name, '[[:alpha:]]') AS d, regexp_instr(name, '[[:digit:]]') AS e, num_nulls(name, u, span) AS f, num_nonnulls(mood, rate) + 1 AS g FROM o
