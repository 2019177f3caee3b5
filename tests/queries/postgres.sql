-- Queries in PostgreSQL's dialect over the sources r, s and t of `headrace.testing`, one per paragraph: each means what PostgreSQL answers.

SELECT k / 2 AS a, n / k AS b, -7 / 2 AS c, k % 2 AS d, (k + 1) / 2.0 AS e FROM r WHERE k <> 0

SELECT amount / 4 AS a, x / 2 AS b, amount * k AS c FROM r

SELECT k, sum(n) / 2 AS a, sum(k) / 2 AS b, count(*) / 2 AS c, avg(k) AS d, avg(amount) AS e, round(avg(amount), 2) AS f FROM r GROUP BY k

SELECT day - DATE '2024-01-01' AS a, day + 3 AS b, 3 + day AS c, day + interval '1 day' AS d, day - interval '1 mon' AS e FROM r

SELECT at + interval '01:30:00' AS a, at - interval '1 day 02:30' AS b, at + interval '3' day AS c, at + '2 weeks'::interval AS d FROM r

SELECT amount::int AS a, (amount / 8)::bigint AS b, 2.5::int AS c, '-3'::int AS d, k::numeric AS e, k::numeric(6, 2) AS f, name::varchar(1) AS g FROM r

SELECT x::int AS a, round(x) AS b, x::numeric AS c, round(x::numeric, 1) AS d, x::numeric(10, 1) AS e, ceil(x) / 2 AS f, floor(x) AS g, trunc(x) AS h FROM r WHERE x < 1000

SELECT round(amount) AS a, round(amount, 1) AS b, ceil(amount) AS c, floor(amount) AS d, trunc(amount) AS e, abs(amount) AS f, sign(amount) AS g FROM r

SELECT k ^ 2 AS a, power(k, 3) AS b, |/ 25 AS c, log(100) AS d, ln(2.5) AS e, mod(k, 2) AS f, exp(k) AS g FROM r

SELECT name || '-' || k AS a, concat(name, NULL, k, day, ok) AS b, concat_ws(',', name, NULL, ok, k) AS c, amount::text AS d, ok::text AS e FROM r

SELECT left(name, 1) AS a, left(name, -1) AS b, right(name, 1) AS c, right(name, -1) AS d, substr(name, 2) AS e, substring(name FROM 1 FOR 1) AS f, strpos(name, 'a') AS g, position('b' IN name) AS h FROM r

SELECT lower(name) AS a, length(name) AS b, replace(name, 'a', 'x') AS c, lpad(name, 3, '*') AS d, btrim(name) AS e, reverse(name) AS f, repeat(name, 2) AS g, split_part(name, 'b', 1) AS h, md5(name) AS i, translate(name, 'ab', 'x') AS j FROM r

SELECT name ~ '^a.*$' AS a, name ~* 'B' AS b, name !~ '[[:digit:]]' AS c, name !~* 'É' AS d, name SIMILAR TO '(a|b)%' AS e, name ~ '\d+%' AS f FROM r WHERE name <> 'É'

SELECT name ILIKE 'A%' AS a, name LIKE '10\%%' AS b, name NOT ILIKE '%B' AS c, name LIKE ANY (ARRAY['a%', '%b']) AS d FROM r

SELECT substring(name FROM '^(.)') AS a, substring(name FROM 'b') AS b, substring(name FROM '[a-z]+') AS c FROM r

SELECT regexp_replace(name, '[ab]', '<\&>', 'g') AS a, regexp_replace(name, '(.)b', '\1$', 'gi') AS b FROM r

SELECT E'a\tb' AS a, 'a\tb' AS b, 'it''s' AS c, 1e2 AS d, 1.50 AS e FROM r

SELECT to_char(at, 'YYYY-MM-DD HH24:MI:SS.US') AS a, to_char(at, 'YYYY-MM-DD"T"HH24:MI') AS b, to_char(day, 'FMMonth FMDD, YYYY') AS c, to_char(day, 'Dy DD Mon YY') AS d, to_char(at, 'HH12:MI AM, Q') AS e FROM r

SELECT extract(year FROM day) AS a, extract(month FROM at) / 5 AS b, extract(dow FROM day) AS c, extract(isodow FROM day) AS d, extract(doy FROM day) AS e, extract(week FROM day) AS f, extract(quarter FROM at) AS g FROM r

SELECT extract(epoch FROM at) AS a, extract(epoch FROM at - TIMESTAMP '2024-02-29 00:00:00') / 60 AS b, extract(second FROM at) AS c, date_part('hour', at) AS d FROM r

SELECT date_trunc('month', at) AS a, date_trunc('week', at) AS b, date_trunc('hour', at) AS c, at::date AS d, date(at) AS e FROM r

SELECT at::timestamptz AT TIME ZONE 'Europe/Paris' AS a, at AT TIME ZONE 'UTC' AS b FROM r WHERE at > '2000-01-01'

SELECT k FROM r WHERE k = ANY (ARRAY[1, 2]) OR n <> ALL (ARRAY[1, 2]) OR k BETWEEN SYMMETRIC 3 AND 1

SELECT k, name FROM r ORDER BY name COLLATE "C", k, n, id, day, at, amount, x, ok LIMIT 4

SELECT name, id FROM (SELECT name, id, row_number() OVER (PARTITION BY k ORDER BY n DESC, name, id, day, at, x, amount, ok) AS place FROM r) ranked WHERE place = 1

SELECT id FROM r ORDER BY n DESC, id, k, x, amount, name, day, at, ok FETCH FIRST 3 ROWS ONLY

SELECT ok IS NOT TRUE AS a, x IS NULL AS b, k ISNULL AS c, n NOTNULL AS d, k IS DISTINCT FROM n AS e FROM r

SELECT coalesce(name, 'none') AS a, nullif(k, 1) AS b, greatest(k, n) AS c, least(amount, 1) AS d, CASE k WHEN 1 THEN 'one' ELSE 'other' END AS e FROM r

SELECT r.k, count(s.n) AS n, max(s.price) AS price FROM r LEFT JOIN s USING (k) GROUP BY r.k HAVING count(*) > 1

SELECT count(*) FILTER (WHERE ok) AS a, sum(amount) FILTER (WHERE NOT ok) AS b, count(DISTINCT k) AS c FROM r

SELECT k AS "Key Of", Name AS NAME FROM R AS Q WHERE Q.K > 0

SELECT k FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k) AND k NOT IN (SELECT k FROM t WHERE k IS NOT NULL)

SELECT k, string_agg(name, ', ' ORDER BY name COLLATE "C") AS a, bool_and(ok) AS b, bool_or(ok) AS c, max(day) AS d, min(at) AS e FROM r GROUP BY k

SELECT k, stddev(amount) AS a, var_pop(x) AS b, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS c, count(DISTINCT name) AS d FROM r WHERE x < 100 GROUP BY k

SELECT k FROM r EXCEPT ALL (SELECT k FROM s INTERSECT ALL SELECT k FROM t)

SELECT btrim(name, 'an') AS a, ltrim(name, 'a') AS b, rtrim(name, 'n') AS c, trim(BOTH 'a' FROM name) AS d, trim(name) AS e, overlay(name PLACING '_' FROM 2 FOR 1) AS f FROM r

SELECT encode(name::bytea, 'hex') AS a, encode(sha256(name::bytea), 'base64') AS b, to_hex(k) AS c, to_hex(n) AS d, ascii(name) AS e, chr(65) AS f, octet_length(name) AS g, bit_length(name) AS h FROM r WHERE name !~ '\\'

SELECT k & n AS a, k | 1 AS b, k # 3 AS c, ~k AS d, k << 2 AS e, k >> 1 AS f FROM r

SELECT regexp_count(name, '[ab]') AS a, regexp_like(name, '^a|b$') AS b, regexp_substr(name, '[b-z]+') AS c, regexp_instr(name, 'n') AS d FROM r

SELECT cbrt(k) AS a, sinh(n) AS b, tanh(x) AS c, md5(name) AS d, split_part(name, 'a', 1) AS e, translate(name, 'ab', 'x') AS f FROM r WHERE n < 100 AND n > -100

SELECT id, (SELECT count(*) FROM s WHERE s.k = r.k HAVING count(*) = 0) AS a, (SELECT 5 FROM s WHERE s.k = r.k HAVING true) AS b, (SELECT max(n) FROM s WHERE s.k = r.k HAVING count(*) < 2) AS c FROM r

SELECT r.id, l.c FROM r LEFT JOIN LATERAL (SELECT count(*) AS c FROM s WHERE s.k = r.k HAVING count(*) = 0) l ON true

SELECT EXISTS (SELECT 1 FROM s WHERE s.k = r.k) AS a, (SELECT count(*) FROM s WHERE s.k = r.k) AS b, count(*) AS c FROM r GROUP BY 1, b

SELECT count(*) AS c, count(DISTINCT NULL) AS d FROM r GROUP BY ALL k

SELECT k, row_number() OVER (PARTITION BY k ORDER BY id, n, x, amount, name, day, at, ok) AS a, rank() OVER (ORDER BY n) AS b, ntile(2) OVER w AS c, lag(n, 2) OVER w AS d, lead(k, 1, 0) OVER w AS e, first_value(n) OVER w AS f FROM r WINDOW w AS (PARTITION BY k ORDER BY id, n, x, amount, name, day, at, ok)

SELECT k, sum(n) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS a, count(*) OVER (ORDER BY at RANGE BETWEEN interval '1 day' PRECEDING AND CURRENT ROW) AS b, count(*) OVER (ORDER BY day RANGE BETWEEN interval '2 days' PRECEDING AND interval '1 day' FOLLOWING) AS c, max(k) OVER (PARTITION BY ok) AS d FROM r

SELECT k, sum(sum(n)) OVER (ORDER BY k DESC) AS a, nth_value(k, 2) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS b, cume_dist() OVER (ORDER BY count(*)) AS c FROM r GROUP BY k

SELECT ARRAY[k, 1] AS a, (ARRAY[k, 7])[2] AS b, (ARRAY[k, 7])[5] AS c, array_length(ARRAY[k, 7], 1) AS d, cardinality(ARRAY[k, 7]) AS e, 1 = ANY (ARRAY[k, 7]) AS f, k = ANY (string_to_array('1,2', ',')::int[]) AS g, 1 <> ALL (array_append(ARRAY[k], 2)) AS h FROM r

SELECT array_to_string(ARRAY[k, 7, NULL], ',') AS a, array_to_string(ARRAY[name, NULL, 'b'], ',', '*') AS b, array_position(ARRAY[k, 7], 7) AS c, array_remove(ARRAY[k, 7], 7) AS d, ARRAY[k] || 7 AS e, ARRAY[k] || ARRAY[2] AS f, array_cat(ARRAY[k], ARRAY[k]) AS g, array_prepend(0, ARRAY[k]) AS h FROM r

SELECT ARRAY[k, 1] @> ARRAY[1] AS a, ARRAY[k, 1] && ARRAY[2, 1] AS b, (ARRAY[k, 2, 3])[2:3] AS c, ARRAY[1] <@ ARRAY[k, 1] AS d, string_to_array(name, 'n') AS e, regexp_split_to_array(name, '[an]') AS f, k || 'x' AS g FROM r

SELECT at::timestamp AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo' AS a, at::timestamp AT TIME ZONE 'Etc/GMT-9' AT TIME ZONE 'Etc/GMT-2' AS b, timezone('Asia/Kolkata', at::timestamptz) AS c, (at::timestamptz + interval '1 day') AT TIME ZONE 'Asia/Tokyo' AS e, '\x1f'::bytea AS f, 'off'::boolean AS g, at::timestamptz(6) AS h FROM r

SELECT substring(name FROM '[(]?(a)') AS a, substring(name FROM '[(]') AS b, name ~ 'a{,2}b' AS c, 'a{,2}b' ~ 'a{,2}b' AS d, name ~ '(?:a)(b)' AS e, substring(name FROM '(?:ab)?(.)b?') AS f, to_char(at, 'YYYYMMDD MM-MM') AS g, to_char(at, '') AS h FROM r

SELECT n BETWEEN SYMMETRIC k AND 5 AS a, substring(name FROM 1 FOR k) AS b, trunc(id) / 4 AS c, round(n) / 4 AS d, starts_with(name, 'a') AS e FROM r WHERE (k > 0 OR k IS NULL) AND EXISTS (VALUES (1))

SELECT k, percentile_disc(0.5) WITHIN GROUP (ORDER BY n) / 2 AS a, percentile_disc(0.5) WITHIN GROUP (ORDER BY id) FILTER (WHERE ok) / 2 AS b, percentile_disc(0.3) WITHIN GROUP (ORDER BY amount DESC) AS c FROM r GROUP BY k

SELECT k, name, grouping(k, name) AS a, count(*) AS b FROM r GROUP BY GROUPING SETS ((k), (name), (k, name)) LIMIT ALL

SELECT v.column2 AS a FROM (VALUES (1, 'a'), (2, 'b')) v WHERE EXISTS (TABLE s) LIMIT NULL OFFSET NULL

SELECT to_date('5/3/2024', 'DD/MM/YYYY') AS a, to_date(to_char(day, 'YYYYMMDD'), 'YYYYMMDD') AS b, to_timestamp(to_char(at, 'YYYY-MM-DD HH24:MI:SS'), 'YYYY-MM-DD HH24:MI:SS') AS c, to_timestamp(k) AS d, make_date(2024, 2, 29) AS e FROM r WHERE day > '1900-01-01'

SELECT date_bin('15 minutes', at, timestamp '2001-01-01') AS a, date_bin(interval '1 hour', at, timestamp '2001-01-01 00:30') AS b, extract(isoyear FROM day) AS c, extract(century FROM day) AS d, extract(decade FROM day) AS e, make_timestamp(2024, 1, 2, 3, 4, 5.5) AS f FROM r

SELECT DISTINCT ON (k) k, id, n FROM r ORDER BY k, id, n

SELECT format('%s: %s%%', name, k) AS a, format('x') AS b FROM r

SELECT id, k FROM r ORDER BY k DESC NULLS LAST FETCH FIRST 2 ROWS WITH TIES

SELECT k % 2 AS odd, count(*) AS n FROM r GROUP BY 1 ORDER BY n FETCH FIRST ROW WITH TIES

SELECT k FROM s WHERE k IN (SELECT k FROM r ORDER BY n FETCH FIRST 1 ROWS WITH TIES)

SELECT k, sum(amount)::numeric AS a, max(amount)::numeric / 3 AS b, sum(n)::numeric AS c, count(*)::numeric / 7 AS d, round(sum(amount) / count(*), 4) AS e, 100.0 * count(*) / sum(count(*)) OVER () AS f FROM r GROUP BY k

SELECT 1.25 / 3 * 3 AS a, round(1 / 3.0, 8) AS b, (amount / 3) * 1000000 AS c, 1 / 3.0 * k AS d, amount / (n + 5) AS e, round(amount / 7, 6)::text AS f, 3 / 2.0 AS g FROM r

SELECT (ARRAY[k, 7, 9])[k] AS a, (ARRAY[k, 7, 9])[k + 1] AS b, (ARRAY[k, 7, 9])[0] AS c, (ARRAY[k, 7, 9])[-1] AS d, (string_to_array(name, 'b'))[id] AS e FROM r

SELECT '2024-01-01 00:00:00+02'::timestamp AS a, '2024-01-01 00:00:00+02'::timestamptz AS b, timestamp '2024-01-01 00:00:00 Europe/Paris' AS c, ('2024-01-0' || (1 + abs(k)) || ' 10:00:00-05')::timestamp AS d, ('2024-01-0' || (1 + abs(k)))::timestamp AS e FROM r

SELECT at + '1 day' AS a, '90 minutes' + at AS b, at + interval '1 month - 1 day' AS c, at + interval '1 month 2 days' AS d, day - interval '1 year 1 day' AS e, at - '1 mon 01:00'::interval AS f, at + '3 days ago' AS g FROM r

SELECT at + k * interval '1 month' AS a, day + interval '1 day' * k AS b, at - k * interval '90 minutes' AS c, at + (k || ' days')::interval AS d, at + make_interval(hours => k) AS e FROM r

SELECT k, count(*) OVER (ORDER BY at RANGE BETWEEN '7 days' PRECEDING AND CURRENT ROW) AS a, count(*) OVER (ORDER BY day RANGE BETWEEN '1 month' PRECEDING AND '2 months' FOLLOWING) AS b, count(*) OVER (ORDER BY n RANGE BETWEEN '1' PRECEDING AND CURRENT ROW) AS c FROM r

SELECT '{1,2}'::int[] AS a, k = ANY ('{1,2}'::int[]) AS b, name = ANY ('{a,b}') AS c, '{}'::text[] AS d, '{a,"b c",NULL}'::text[] AS e, k <> ALL ('{1,3}') AS f FROM r

SELECT at < 'infinity' AS a, 'infinity'::date > day AS b, at > '-infinity'::timestamp AS c, coalesce(day, 'infinity') > date '2024-02-29' AS d, at BETWEEN '-infinity' AND 'infinity' AS e FROM r WHERE date '2024-02-29' < 'infinity'

SELECT extract(day FROM at - timestamp '2024-02-27 10:00:01.5') AS a, extract(hour FROM timestamp '2024-02-27 10:00:01.5' - at) AS b, date_part('minute', at - day) AS c, extract(second FROM timestamp '2024-02-27 10:00:01.5' - at) AS d FROM r

SELECT regexp_replace(name, '[ab]', '<\&>') AS a, regexp_replace(name, '(.)b', '\1$') AS b, regexp_replace(name, '^(a)', '\1x') AS c, regexp_replace(name, 'B', 'y', 'i') AS d, regexp_replace('2024-05-06', '(\d+)-(\d+)', '\2/\1') AS e FROM r

SELECT to_char(at, 'yyyy-mm-dd hh24:mi:ss') AS a, substring(name FROM k) AS b, substring(name FROM k FOR 2) AS c, substr(name, k, abs(id)) AS d, trunc(amount, 1) AS e, trunc(k, 1) AS f, trunc(amount / 3, 2) AS g FROM r

SELECT (regexp_match(name, 'a(.)'))[1] AS a, (regexp_match(name, '[a-z]+'))[1] AS b, '1.50'::text::numeric AS c, replace('1,5', ',', '.')::numeric + k AS d FROM r

SELECT (k, n) < (2, 20) AS a, (k, n) >= (1, NULL) AS b, ROW(k, n) <> ROW(1, 10) AS c, (k, ok) IS NOT DISTINCT FROM (1, NULL) AS d FROM r WHERE (id, k) > (1, 1) OR NOT (k, id) = (2, 3)

SELECT s.k, s.n, l.id, l.place, l.so_far FROM s, LATERAL (SELECT id, row_number() OVER (ORDER BY id, n, x, amount, name, day, at, ok) AS place, sum(n) OVER (ORDER BY id) AS so_far FROM r WHERE r.k = s.k) AS l

SELECT k, sum(n ORDER BY id DESC) AS a, count(DISTINCT name ORDER BY name) AS b, max(day ORDER BY id) FILTER (WHERE ok) AS c FROM r GROUP BY k

SELECT id, extract(milliseconds FROM at) AS a, extract(microseconds FROM at) AS b, date_part('milliseconds', at) AS c FROM r

SELECT avg(amount::numeric(38, 2)) AS a, avg(k::numeric(30, 1)) AS b FROM r

SELECT (regexp_match(name, '^(.)(.)$'))[2] AS a, (regexp_match(name, 'b'))[1] AS b, (regexp_match(name, '(b)'))[2] AS c FROM r

SELECT at::timestamp::text AS a, at::timestamptz::text AS b, 'on ' || day || ' at ' || at::timestamp || '!' AS c, concat(at::timestamptz, ok, k) AS d, '\x6162'::bytea::text AS e FROM r

SELECT percentile_cont(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY n) AS a, percentile_disc(ARRAY[0, 1]) WITHIN GROUP (ORDER BY id) FILTER (WHERE ok) AS b FROM r

SELECT regexp_match(name, '^(.)(.)') AS a, regexp_match(name, 'b') AS b FROM r

SELECT amount ^ 2 AS a, power(amount, 3) AS b, width_bucket(amount, 0, 50, 7) AS c, width_bucket(x, 0, 10, 4) AS d, width_bucket(k, -1, 2.5, 3) AS e FROM r WHERE x = x AND abs(x) < 1e30

SELECT id FROM r WHERE k > ANY (ARRAY[1, id]) AND k <= ALL (ARRAY[3, id]) OR k = SOME (ARRAY[2, 3])

SELECT count(r.*) AS a, count(r) AS b, length('\x6162'::bytea) AS c FROM r

SELECT k, string_agg(name, ',') AS a FROM (SELECT k, name, id FROM r ORDER BY id DESC, name COLLATE "C") q WHERE name IS NOT NULL GROUP BY k

SELECT count(DISTINCT (k, n)) AS a, count(DISTINCT (k, name)) FILTER (WHERE ok) AS b FROM r GROUP BY day

SELECT -k AS k, id, n, name FROM r ORDER BY k + 0 NULLS FIRST, id DESC, n, name, x, amount, day, at, ok LIMIT 3

SELECT id, abs(k) AS k FROM r ORDER BY (k), id LIMIT 2

SELECT name, sum(k) AS k FROM r GROUP BY name ORDER BY max(k) + 1, name LIMIT 2

SELECT id, name = ANY (string_to_array(CASE WHEN k > 0 THEN 'a,b' ELSE '' END, ',')) AS a, name <> ALL (string_to_array(CASE WHEN k > 0 THEN 'a,b' ELSE '' END, ',')) AS b FROM r

SELECT (at, day::timestamp) OVERLAPS (timestamp '2024-02-29', timestamp '2020-01-01') AS a, (at, day::timestamp) OVERLAPS (at, NULL) AS b, (NULL, at) OVERLAPS (day::timestamp, at) AS c, (at, interval '1 day') OVERLAPS (day, interval '-1 month') AS d, (day, day) OVERLAPS (day, day) AS e, (day, day) OVERLAPS (date '2024-02-29', '2024-03-01') AS f, NOT (at, at) OVERLAPS ('2024-02-29', at) AS g FROM r

SELECT x.id, y.id AS other, (x.at, x.day) OVERLAPS (y.day, y.at) AS a, ROW(x.day, y.day) OVERLAPS (x.at, y.at) AS b, (x.day, make_interval(days => x.k)) OVERLAPS (y.day, y.k * interval '1 day') AS c FROM r x, r y WHERE x.k < 1000 AND y.k < 1000

SELECT array_positions(ARRAY[k, 1, n, NULL], 1) AS a, array_positions(ARRAY[k, n, NULL], NULL) AS b, array_positions(string_to_array(name, 'n'), '') AS c, array_positions(ARRAY[k, id], n) AS d, array_replace(ARRAY[k, 1, NULL], 1, n) AS e, array_replace(ARRAY[k, NULL], NULL, id) AS f, array_replace(string_to_array(name, 'n'), 'a', NULL) AS g, array_replace(ARRAY[k, n], k, NULL) AS h FROM r

SELECT quote_ident(name) AS a, quote_literal(name) AS b, quote_nullable(name) AS c, quote_literal(k) AS d, quote_nullable(ok) AS e, quote_literal(name || '''\') AS f, quote_ident('select') AS g, quote_ident(name || '"') AS h, quote_ident('a_1' || E'\n') AS i, quote_ident(lower(name)) AS j, quote_literal(day) AS l FROM r

SELECT format('%I = %L AND %s', 'Two words', name, k) AS a, format('%L, %L%%', ok, k) AS b, format('%I.%I', 'a', 'user') AS c, format('%L', NULL) AS d FROM r

SELECT at::timestamp(0) AS a, (at + interval '500 milliseconds')::timestamp(0) AS b, (at + interval '1500 microseconds')::timestamp(3) AS c, (at - interval '31 years 250 milliseconds')::timestamptz(1) AS d, '1999-12-31 23:59:58.5'::timestamp(0) AS e, timestamp(2) '2024-02-29 10:00:00.005' AS f, day::timestamp(3) AS g, at::timestamp(4)::text AS h FROM r
