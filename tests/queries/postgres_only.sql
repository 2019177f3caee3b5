-- Queries in PostgreSQL's dialect over the sources r, s and t of `headrace.testing`, one per paragraph, that `convert` has no words of Spark's for: each means what PostgreSQL answers.

SELECT k, day, sum(amount) AS total, count(*) AS n FROM r GROUP BY ROLLUP (k, day)

SELECT k, ok, count(*) AS c, sum(n) AS d FROM r WHERE id > 2 AND k > 2 GROUP BY CUBE (k, ok)

SELECT k, count(*) AS c FROM r GROUP BY DISTINCT ROLLUP (k), ROLLUP (k)

SELECT id, (SELECT sum(c) FROM (SELECT count(*) AS c FROM s WHERE s.k = r.k GROUP BY ROLLUP (label)) q) AS b FROM r

SELECT j.d ->> 'k' AS a, (j.d -> 'l' ->> 0)::int AS b, j.d -> 'o' ->> 'p' AS c, j.d #>> '{l,-1}' AS d, jsonb_array_length(j.d -> 'l') AS e, jsonb_typeof(j.d -> 'o') AS f, (j.d -> 'o')::text AS g, j.d::text AS h FROM (SELECT ('{"k":' || coalesce(k, 0) || ', "o": {"p" :1.50, "aa": null}, "l":[' || coalesce(n, 1) || ',2]}')::jsonb AS d FROM r WHERE n < 100000) AS j

SELECT '{"a":[1,2,{"b":3}]}'::jsonb @> ('{"a":[' || k || ']}')::jsonb AS a, ('{"k":' || k || '}')::jsonb ? 'k' AS b, jsonb_extract_path_text('{"x":{"y":"z"}}', 'x', 'y') AS c, json_array_length('[1,[2]]') AS d, ('{"k":' || k || '}')::jsonb ?| ARRAY['a', 'k'] AS e FROM r

SELECT id, e ->> 'a' AS a, e::text AS b FROM r, jsonb_array_elements(('[{"a":' || k || '}, {"a": "x"}]')::jsonb) AS e

SELECT id, t FROM r CROSS JOIN LATERAL jsonb_array_elements_text(('{"l":["a",' || k || ',null]}')::jsonb -> 'l') AS x(t)

SELECT id, key, value FROM r, jsonb_each_text(('{"a":' || k || ',"b":"x"}')::jsonb)

SELECT r.id, u.x FROM r, unnest(ARRAY[k, 7]) AS u(x)

SELECT r.id, u, u.u AS v FROM r CROSS JOIN unnest(string_to_array(name, 'n')) AS u WHERE u <> ''

SELECT r.id, u.x, y, o FROM r CROSS JOIN LATERAL unnest(ARRAY[k, 7], ARRAY[name]) WITH ORDINALITY AS u(x, y, o)

SELECT r.id, u.x FROM r LEFT JOIN LATERAL unnest(CASE WHEN ok THEN ARRAY[k] END) AS u(x) ON true

SELECT id, unnest(ARRAY[k, 7]) AS x FROM r WHERE ok

SELECT r.id, g FROM r, generate_series(1, 3) AS g WHERE g > k

SELECT g.n, count(*) AS c FROM generate_series(0, 6, 2) AS g(n) LEFT JOIN r ON r.k = g.n GROUP BY g.n

SELECT r.id, d FROM r, generate_series(r.day, r.day + interval '2 days', interval '12 hours') AS d

SELECT part, count(*) AS n FROM r, regexp_split_to_table(name, 'n') AS part GROUP BY part

SELECT DISTINCT ON (k) k, id FROM r ORDER BY k, id LIMIT 2

SELECT DISTINCT ON (1) k AS a, id FROM r ORDER BY 1, id

SELECT DISTINCT ON (a) k AS a, n AS b FROM r WHERE n IS NOT NULL ORDER BY a, b

SELECT r.id, q.x FROM r, LATERAL (SELECT u.x FROM unnest(ARRAY[r.k, 7]) AS u(x) WHERE u.x > 1) AS q

SELECT id, (SELECT count(*) FROM unnest(ARRAY[k, 7]) AS u(v) WHERE v > 1) AS a, (SELECT max(v) FROM unnest(ARRAY[k, n]) AS u(v)) AS b FROM r

SELECT id FROM r WHERE EXISTS (SELECT 1 FROM unnest(ARRAY[k, 7]) AS u(v) WHERE v = r.n)

SELECT r.id, s.label FROM r CROSS JOIN unnest(ARRAY[r.k, 7]) AS u(v) JOIN s ON s.k = u.v

SELECT r.id, s.label, u.v FROM r JOIN s ON s.k = r.k, unnest(ARRAY[r.k, s.k]) AS u(v)

SELECT r.id, a.v, b.w FROM r, unnest(ARRAY[k, 1]) AS a(v), unnest(ARRAY[name, 'x']) AS b(w) WHERE a.v > 0

SELECT x.k, v FROM (SELECT k, string_to_array(name, 'n') AS parts FROM r) AS x, unnest(x.parts) AS v

SELECT v, count(DISTINCT r.id) AS n FROM r, unnest(ARRAY[k, 7]) AS v GROUP BY v HAVING count(*) > 1

SELECT id, (SELECT string_agg(v, '-' ORDER BY v COLLATE "C") FROM unnest(string_to_array(name, 'n')) AS v) AS a FROM r

SELECT id FROM r WHERE k IN (SELECT unnest(ARRAY[1, 2]))

SELECT id, i FROM r, generate_series(1, coalesce(k, 0)) AS i WHERE k < 5

SELECT k, array_agg(n ORDER BY n, id) AS a, array_agg(DISTINCT n ORDER BY n) AS b, array_agg(name ORDER BY id DESC, name COLLATE "C") FILTER (WHERE ok) AS c FROM r GROUP BY k

SELECT array_agg(id ORDER BY id) AS a, array_to_string(array_agg(k ORDER BY k), ',') AS b FROM r WHERE id > 2

SELECT s.k, (SELECT array_agg(r.id ORDER BY r.id) FROM r WHERE r.k = s.k) AS ids FROM s

SELECT DISTINCT k, n FROM r ORDER BY k FETCH FIRST 2 ROWS WITH TIES

SELECT k FROM r UNION ALL SELECT k FROM s ORDER BY 1 FETCH FIRST 2 ROWS WITH TIES

SELECT * FROM r ORDER BY ok FETCH FIRST 1 ROWS WITH TIES
