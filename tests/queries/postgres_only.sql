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

SELECT k, ARRAY(SELECT s.n FROM s WHERE s.k = r.k ORDER BY s.n DESC) AS a FROM r

SELECT amount / (amount / 7) AS a, (SELECT avg(amount) / avg(amount / 3) FROM r) AS b FROM r WHERE amount <> 0

SELECT ('{"a": {"b": 1}}'::jsonb || '{"c": 2, "a": 5}')::text AS a, ('[1]'::jsonb || '2'::jsonb)::text AS b, ('{"a":1}'::jsonb -> 'a') = '1.0' AS c, ('{"a":1, "b":2}'::jsonb - 'a')::text AS d, ('[1,2,3]'::jsonb - 1)::text AS e, ('{"a":1}'::jsonb -> 'a') IS DISTINCT FROM '2'::jsonb AS f, '{"a": 1}'::jsonb || name::text AS g FROM r

SELECT 'A0EEBC999C0B4EF8-BB6D6BB9BD380A11'::uuid::text AS a, ('{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A1' || abs(k) % 3 || '}')::uuid::text AS b FROM r

SELECT g, u FROM generate_series(date '2024-01-01', date '2024-01-05', '1 day') AS g, generate_series(date_trunc('month', timestamp '2024-01-31'), date '2024-05-31', '1 month') AS u

SELECT r.k, e.key, e.value, f.value AS item, f AS itself FROM r, jsonb_each_text('{"a": 1, "b": "x"}'::jsonb) e, jsonb_array_elements_text('["a", "b"]'::jsonb) f

SELECT extract(year FROM age(at, timestamp '2000-03-15 05:00')) AS a, date_part('month', age(day, date '1999-01-31')) AS b, extract(day FROM age(day, at)) AS c, extract(hour FROM age(at, day)) AS d, extract(epoch FROM age(at, day)) AS e, extract(second FROM age(day, at)) AS f FROM r

SELECT initcap('hello wORLD-foo_bar 1st') AS a, initcap(name) AS b FROM r WHERE name ~ '^[ -~]*$'

SELECT to_char(at, 'MON Month MONTH Day DAY day dy') AS a, to_char(at, 'IYYY-IW "W"WW D ID J DDDth CC') AS b, to_char(day, 'FMDDth FMMonth YYYY') AS c, to_char(at, 'YYYYMMDDHH24MISSMS') AS d, to_char(at, 'am A.M. BC SSSS') AS e, to_char(at, 'Y,YYY RM rm W IYY IDDD IY') AS f FROM r

SELECT to_char(amount, '999.99') AS a, to_char(amount, 'FM999,990.00') AS b, to_char(k, '000') AS c, to_char(n, 'FM9,999,999,999') AS d, to_char(amount, '$99.99') AS e, to_char(k, 'fm00') AS f, to_char(amount, 'S990.9') AS g, to_char(amount, '990.99MI') AS h, to_char(amount, '99.9PR') AS i, to_char(k, '9th') AS j, to_char(amount, '9G999D99') AS l FROM r

SELECT json_build_object('a', k, 'b', name::text, 'c', amount, 'd', ok, 'e', NULL, 'f', 'x"y', 'g', day, 'h', json_build_array(1, 'z', NULL))::text AS a, jsonb_build_object('bb', k, 'a', name::text)::text AS b, json_build_array(k, name::text)::text AS c FROM r

SELECT k, json_agg(n ORDER BY n)::text AS a, jsonb_agg(name::text ORDER BY name)::text AS b, json_agg(json_build_object('n', n) ORDER BY n)::text AS c, json_agg(n ORDER BY n) FILTER (WHERE n > 0)::text AS d FROM r GROUP BY k

SELECT x::text AS a, x || '!' AS b, concat_ws('-', x, k) AS c, (x * 1e15)::text AS d, (x / 1e5)::text AS e, (k / 7.0)::float8::text AS f FROM r WHERE x = x AND abs(x) < 1e30

SELECT ARRAY[name, 'a b', '', 'null', NULL, 'q"u\']::text AS a, ARRAY[k, 1]::text AS b, ARRAY[ok, NULL]::text AS c, ARRAY[x]::text AS d, ARRAY[day]::text AS e FROM r

SELECT unnest(ARRAY[k, 7]) AS u, count(*) AS n FROM r GROUP BY u HAVING count(*) > 1

SELECT ok, unnest(string_to_array(name, 'n')), max(n) AS m FROM r GROUP BY 2, 1

SELECT jsonb_object_keys(('{"a":' || k || ',"k' || k || '":1}')::jsonb) AS key, count(*) AS n FROM r GROUP BY 1

SELECT k, jsonb_object_agg(id, n)::text AS a, json_object_agg(id, name::text ORDER BY id)::text AS b, jsonb_object_agg(id, n) FILTER (WHERE n > 0)::text AS c FROM (SELECT DISTINCT ON (id) id, k, n, name FROM r WHERE id IS NOT NULL ORDER BY id, k, n, name COLLATE "C") q GROUP BY k

SELECT to_json(k)::text AS a, to_jsonb(name::text)::text AS b, to_jsonb(ARRAY[k, n])::text AS c, to_json(ARRAY[name::text])::text AS d, to_json(at::timestamp)::text AS e, to_jsonb(at::timestamptz)::text AS f, json_build_object('x', x, 'l', ARRAY[ok])::text AS g FROM r WHERE x = x AND abs(x) < 1e30

SELECT jsonb_set(d, '{a,1}', '{"z": 1.50}')::text AS a, jsonb_set(d, '{a,9}', '2', false)::text AS b, jsonb_set(d, '{n,m}', '2')::text AS c, jsonb_insert(d, '{a,-1}', '"i"', true)::text AS e, (d #- '{a,0}')::text AS f, jsonb_strip_nulls(d)::text AS g, jsonb_pretty(d) AS h FROM (SELECT ('{"a": [1, ' || coalesce(k, 5) || ', null], "o": {"p": null, "q": {}}, "n": ' || coalesce(n, 2) || '}')::jsonb AS d FROM r) j

SELECT ('{1,2}'::int[] || k)::text AS a, (k || CASE WHEN ok THEN ARRAY[1] END)::text AS b, (CASE WHEN ok THEN ARRAY[n] END || n)::text AS c, array_append(CASE WHEN ok THEN ARRAY[k] END, k)::text AS d FROM r

SELECT k, percentile_disc(0.5) WITHIN GROUP (ORDER BY name COLLATE "C") AS a FROM r GROUP BY k

SELECT row_to_json(q)::text AS a, to_jsonb(q)::text AS b FROM (SELECT id, name::text AS "full name", ARRAY[k] AS l, at::timestamp AS t FROM r) q

SELECT k, json_agg(q ORDER BY q.id, q.n)::text AS a, json_build_object('l', json_agg(q.n ORDER BY q.id, q.n), 'o', '{}'::jsonb)::text AS b FROM (SELECT id, k, n FROM r) q GROUP BY k

SELECT s.k, json_build_object('ids', (SELECT json_agg(r.id ORDER BY r.id) FROM r WHERE r.k = s.k))::text AS a FROM s

SELECT r.id, e.a, e.b::text AS b, f.c FROM r, jsonb_to_recordset(('[{"a":' || k || ',"b":[1.50]},{"a":null}]')::jsonb) AS e(a int, b jsonb), jsonb_to_record('{"c": "x"}'::jsonb) AS f(c text)

SELECT (('{"a": [1, {"b": "' || k || '"}]}')::jsonb)['a'][1]['b']::text AS a, json_object_keys('{"x": 1}'::json) AS b FROM r

SELECT id FROM r WHERE k > ALL (SELECT s.k FROM s WHERE s.n = r.n) AND id <> ANY (SELECT s.k FROM s)

SELECT id, row_number() OVER () > 0 AS a FROM r

SELECT id, array_agg(id) OVER (PARTITION BY k ORDER BY id) AS a, string_agg(id::text, ',') OVER (PARTITION BY k ORDER BY id) AS b, bool_or(ok) OVER (PARTITION BY k) AS c, bit_and(k) OVER (ORDER BY n) AS d, array_agg(k) FILTER (WHERE ok) OVER (PARTITION BY k) AS e FROM r

SELECT id, sum(k) OVER (ORDER BY n GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a, count(*) OVER (PARTITION BY ok ORDER BY k DESC, n GROUPS 2 PRECEDING) AS b, max(n) OVER (ORDER BY n GROUPS BETWEEN '1' FOLLOWING AND UNBOUNDED FOLLOWING) AS c, sum(n) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE NO OTHERS) AS d, min(id) OVER (PARTITION BY k ORDER BY id GROUPS CURRENT ROW) AS e FROM r

SELECT r.id, s.label, s.n FROM r LEFT JOIN s ON r.k = s.k AND s.n IN (SELECT k FROM t) AND r.n > (SELECT min(k) FROM t WHERE t.k < r.k)

SELECT r.id, s.label, row_number() OVER () > 0 AS a FROM r RIGHT JOIN s ON r.k = s.k AND NOT EXISTS (SELECT 1 FROM t WHERE t.k = r.n) AND s.n NOT IN (SELECT n FROM s)

SELECT id, generate_series(1, k) AS a, unnest(ARRAY[n, id]) AS b, count(*) OVER (PARTITION BY ok) AS c FROM r WHERE k < 5

SELECT k, unnest(array_agg(id ORDER BY id)) AS a, count(*) AS b FROM r GROUP BY k HAVING count(*) > 1

SELECT id, EXISTS (SELECT generate_series(1, r.k)) AS a, EXISTS (SELECT generate_series(2, 1)) AS b FROM r WHERE k < 5

SELECT id, (at + interval '240 days 14 hours')::timestamp AT TIME ZONE 'Europe/Paris' AS a, date_trunc('hour', at::timestamptz + interval '240 days 13 hours', 'Europe/Paris') AS b, date_trunc('day', at::timestamptz, 'Asia/Tokyo') AS c, (at + interval '30 days 14 hours')::timestamp AT TIME ZONE 'Europe/Paris' AS d FROM r

SELECT DISTINCT ON (abs(k)) -k AS k, id, name FROM r ORDER BY abs(k), k, id, name

SELECT v, count(*) OVER () AS n FROM generate_series(1, (SELECT max(k) FROM s WHERE k < 9)) AS v WHERE v < 12

SELECT r.id, v FROM r, generate_series(1, (SELECT count(*) FROM s WHERE s.k = r.k)) AS v

SELECT DISTINCT ON (abs(k)) -k AS k, id, name FROM r ORDER BY abs(k), r.k, id, name

SELECT DISTINCT ON (abs(k)) sum(n) AS k, count(*) AS c FROM r GROUP BY r.k ORDER BY abs(k), r.k
