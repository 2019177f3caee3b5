-- Queries over the sources r, s and t of `headrace.testing`, one per paragraph: each is understood, and means what Spark says.

SELECT * FROM r

SELECT r.*, s.label FROM r, s WHERE r.k = s.k

SELECT * EXCEPT (x, at) FROM r

SELECT R.ID, K, `r`.`Name` FROM r

SELECT k + 1 AS a, k - n AS b, k * 2L AS c, n / 2 AS d, amount * 2 AS e, amount / 3 AS f, amount % 2 AS g, k div 2 AS h FROM r

SELECT amount * amount AS a, amount / amount AS b, amount + k AS c, amount - n AS d FROM r WHERE amount <> 0

SELECT x * k AS a, x + amount AS b, -k AS c, -amount AS d, - x AS e FROM r WHERE x < 1000 AND k > -5

SELECT k FROM r WHERE amount > 1

SELECT k FROM r WHERE amount > 1.005 OR n = 1.0 OR x >= 1

SELECT k FROM r WHERE day > '2000-01-01' AND at < '2024-02-29 12:35:00'

SELECT k FROM r WHERE day BETWEEN '1960-01-01' AND DATE '2024-02-29' OR at = day

SELECT k, day + INTERVAL 1 DAY AS a, day + INTERVAL 25 HOURS AS b, day - INTERVAL 1 MONTH AS c, at + INTERVAL '1' YEAR AS d FROM r

SELECT k, day + 1 AS a, day - 1 AS b, at - INTERVAL '1 day 2 hours' AS c, INTERVAL 2 HOURS + at AS d FROM r

SELECT k FROM r WHERE at - TIMESTAMP '2024-02-29 00:00:00' < INTERVAL '13' HOUR

SELECT k, CASE WHEN k > 1 THEN 'many' WHEN k = 1 THEN 'one' ELSE 'none' END AS a, CASE k WHEN 1 THEN n WHEN 2 THEN 0 END AS b FROM r

SELECT CASE WHEN ok THEN amount ELSE 0 END AS a, IF(ok, k, 2.5) AS b, coalesce(amount, k) AS c, nvl(x, 1) AS d FROM r

SELECT nullif(k, 1) AS a, nullif(k, n) AS b, nvl2(k, 'some', 'none') AS c, decode(k, 1, 'a', 2, 'b', 'z') AS d, ifnull(k, 7) AS e FROM r

SELECT greatest(k, n, 1) AS a, least(amount, 1) AS b FROM r

SELECT name || '-' || k AS a, concat(name, n, day) AS b, concat_ws(',', name, k) AS c, upper(name) AS d, length(name) AS e FROM r

SELECT substring(name, 1, 1) AS a, substring(name FROM 2) AS b, left(name, 1) AS c, position('a' IN name) AS d, instr(name, 'b') AS e, locate('a', name) AS f FROM r

SELECT trim(name) AS a, trim(LEADING FROM name) AS b, replace(name, 'a') AS c, lpad(name, 3) AS d, rpad(name, 3, '*') AS e, repeat(name, 2) AS f FROM r

SELECT k FROM r WHERE name LIKE 'a%' OR name NOT LIKE '%b' OR name ILIKE 'AB' OR name RLIKE '^A' OR name LIKE '10!%!_' ESCAPE '!'

SELECT year(day) AS a, month(at) AS b, extract(DAY FROM day) AS c, date_part('hour', at) AS d, quarter(day) AS e, dayofweek(day) AS f FROM r

SELECT date_trunc('month', at) AS a, date_trunc('hour', day) AS b, date_add(day, 2) AS c, datediff(day, '2024-01-01') AS d, date_format(at, 'yyyy-MM-dd HH:mm') AS e FROM r

SELECT to_date(at) AS a, CAST(day AS timestamp) AS b, last_day(day) AS c, add_months(day, 1) AS d, unix_timestamp(at) AS e, make_date(2024, 2, 29) AS f FROM r

SELECT abs(k) AS a, round(amount, 1) AS b, round(x) AS c, ceil(amount) AS d, floor(k) AS e, sign(amount) AS f, pmod(k, 2) AS g, mod(n, 3) AS h, pmod(amount, 2) AS i FROM r WHERE x < 1000

SELECT CAST(k AS string) AS a, CAST('5' AS int) AS b, CAST(amount AS int) AS c, CAST(k AS decimal(12,3)) AS d, CAST(ok AS int) AS e, CAST(n AS double) AS f, k::bigint AS g FROM r

SELECT k FROM r WHERE k IN (1, 2, NULL) OR n NOT IN (1, 2) OR (k, n) IN ((1, 1L), (2, 2L))

SELECT k FROM r WHERE ok IS TRUE OR k IS NULL OR k IS DISTINCT FROM n OR NOT ok IS NOT FALSE OR name <=> NULL

SELECT k FROM r WHERE NOT (k > 1 AND n < 2) AND (ok OR k <> 1 OR x != 0.5)

SELECT r.k, s.n FROM r JOIN s ON r.k = s.k

SELECT r.k, s.n FROM r LEFT JOIN s ON r.k = s.k AND s.n > 1 WHERE r.id > 0

SELECT r.k, t.name FROM r RIGHT JOIN t ON r.k = t.k AND r.name = t.name

SELECT r.k AS rk, t.k AS tk FROM r FULL JOIN t ON r.k = t.k

SELECT k, r.n, s.label FROM r JOIN s USING (k)

SELECT * FROM (SELECT k, name FROM r) a FULL JOIN (SELECT k, x FROM t) b USING (k)

SELECT k, a.n FROM r a RIGHT JOIN s b USING (k, n)

SELECT r.* FROM r JOIN s USING (n, k)

SELECT b.*, a.k AS ak FROM r a RIGHT JOIN s b USING (n)

SELECT * FROM r LEFT SEMI JOIN s USING (n)

SELECT r.k, q.flag, q.c FROM r LEFT JOIN (SELECT k, 1 AS flag, coalesce(price, 0) AS c FROM s) q ON r.k = q.k

SELECT a.k FROM r a CROSS JOIN t b WHERE a.k < b.k

SELECT a.k, b.k AS k2, c.k AS k3 FROM r a JOIN (s b JOIN t c ON b.k = c.k) ON a.k = b.k

SELECT r.k FROM r LEFT SEMI JOIN s ON r.k = s.k AND s.n >= 1

SELECT r.k FROM r LEFT ANTI JOIN s ON r.k = s.k

SELECT k FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND s.n > r.n)

SELECT k FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.k = r.k) AND k IS NOT NULL

SELECT k FROM r WHERE k IN (SELECT k FROM s WHERE n > 0)

SELECT k FROM r WHERE k NOT IN (SELECT k FROM s WHERE n > 1)

SELECT k FROM r WHERE k NOT IN (SELECT k FROM s WHERE k IS NOT NULL)

SELECT k FROM r WHERE (k, name) NOT IN (SELECT k, label FROM s)

SELECT k FROM r WHERE k NOT IN (SELECT t.k FROM t WHERE t.name = r.name)

SELECT k FROM r WHERE n IN (SELECT k FROM s) AND EXISTS (SELECT 1 FROM t WHERE t.k IN (SELECT s.k FROM s WHERE s.label = 'a') AND t.k = r.k)

SELECT k FROM r WHERE k IN (SELECT DISTINCT k FROM s GROUP BY k, label HAVING count(*) >= 1)

SELECT k FROM r WHERE EXISTS (SELECT s.label FROM s WHERE s.k = r.k GROUP BY s.label HAVING count(*) > 1)

SELECT k FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k LIMIT 1)

SELECT k FROM r WHERE n > (SELECT avg(n) FROM s)

SELECT k FROM r WHERE n >= (SELECT max(s.n) FROM s WHERE s.k = r.k)

SELECT k, (SELECT count(*) FROM s WHERE s.k = r.k) AS c, (SELECT sum(s.n) + 1 FROM s WHERE s.k = r.k) AS d FROM r

SELECT k, (SELECT coalesce(max(s.n), -1) FROM s WHERE s.k = r.k AND s.n > 0) AS a FROM r

SELECT k FROM r WHERE 0 = (SELECT count(*) FROM s WHERE s.k = r.k AND s.label = r.name)

SELECT k FROM r WHERE (SELECT min(n) FROM s WHERE s.k = r.k) IS NULL

SELECT k, sum(n) AS total FROM r GROUP BY k HAVING sum(n) > (SELECT min(n) FROM s)

SELECT k, count(*) AS c FROM r GROUP BY k HAVING max(n) >= (SELECT min(s.n) FROM s WHERE s.k = r.k)

SELECT (SELECT max(n) FROM s HAVING max(n) > 100000000000) AS a, (SELECT max(n) FROM s HAVING count(*) >= 0) AS b FROM t

SELECT k FROM r WHERE n = (SELECT n FROM s ORDER BY n DESC, k LIMIT 1)

SELECT count(*) AS a, count(k) AS b, count(1) AS c, count(k, n) AS d, count(DISTINCT k) AS e, count_if(k > 1) AS f FROM r

SELECT sum(k) AS a, sum(n) AS b, sum(amount) AS c, avg(k) AS d, avg(amount) AS e, min(name) AS f, max(day) AS g, sum(DISTINCT k) AS h FROM r

SELECT sum(k) FILTER (WHERE ok) AS a, count(*) FILTER (WHERE k = 1) AS b, count(DISTINCT n) FILTER (WHERE k > 0) AS c FROM r

SELECT count(*) AS a FROM r HAVING count(*) > 1000

SELECT k, ok, count(*) AS c FROM r GROUP BY k, ok

SELECT k % 2 AS parity, max(n) + min(n) AS s FROM r GROUP BY k % 2 HAVING count(*) > 0 AND parity IS NOT NULL

SELECT upper(name) AS u, count(*) AS c FROM r GROUP BY u

SELECT name, k, sum(n) AS total FROM r GROUP BY 1, 2

SELECT k, name, sum(n) AS total FROM r GROUP BY ALL

SELECT k + 1 AS a, (k + 1) * 2 AS b FROM r GROUP BY k + 1

SELECT k, sum(n) * 2 AS twice, sum(n) AS once FROM r GROUP BY k HAVING once > 0

SELECT DISTINCT k, name FROM r

SELECT DISTINCT k FROM r WHERE k IS NOT NULL

SELECT count(*) AS c FROM (SELECT DISTINCT k, n FROM r)

SELECT k, n FROM r UNION ALL SELECT k, price FROM s UNION ALL SELECT k, 1 FROM t

SELECT k FROM r UNION SELECT k FROM s

SELECT k, name FROM r INTERSECT SELECT k, label FROM s

SELECT k FROM r EXCEPT SELECT k FROM s

(SELECT k FROM r EXCEPT SELECT k FROM t) UNION ALL SELECT n FROM s

SELECT 'r' AS src, k FROM r UNION ALL SELECT 's', NULL FROM s

SELECT k, sum(c) AS c FROM (SELECT k, 1 AS c FROM r UNION ALL SELECT k, 2 FROM s) GROUP BY k

SELECT id, k, n FROM r ORDER BY k DESC, id, n, name, day, at, ok, x, amount LIMIT 3

SELECT id FROM r ORDER BY k NULLS LAST, id, n, name, day, at LIMIT 2 OFFSET 1

SELECT k, count(*) AS c FROM r GROUP BY k ORDER BY count(*) DESC, k LIMIT 2

SELECT DISTINCT k FROM r ORDER BY k LIMIT 2

SELECT k FROM r UNION ALL SELECT k FROM s ORDER BY k DESC LIMIT 3

SELECT k, n FROM (SELECT k, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) AS rn FROM r) WHERE rn = 1

SELECT k, n, rn FROM (SELECT k, n, RANK() OVER (PARTITION BY k ORDER BY n) AS rn FROM r) q WHERE rn <= 2

SELECT k, n FROM (SELECT k, n, DENSE_RANK() OVER (ORDER BY n DESC NULLS LAST) AS rn FROM r) WHERE rn BETWEEN 2 AND 3 AND k > 0

SELECT t.k, q.n FROM t LEFT JOIN (SELECT k, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) AS rn FROM s) q ON q.k = t.k AND q.rn = 1

SELECT k, c FROM (SELECT k, count(*) AS c, RANK() OVER (ORDER BY count(*) DESC) AS rn FROM r GROUP BY k) WHERE rn < 2

WITH a AS (SELECT k, n FROM r WHERE n > 0), b (kk, m) AS (SELECT k, max(n) FROM a GROUP BY k) SELECT a.k, b.m FROM a JOIN b ON a.k = b.kk

WITH a AS (SELECT k FROM r) SELECT x.k FROM a x, a y WHERE x.k = y.k

SELECT q.a, q.a + q.b AS c FROM (SELECT k AS a, n * 2 AS b FROM r WHERE ok) AS q WHERE q.b > 0

SELECT k + 1 AS a, a * 2 AS b FROM r

SELECT x.k FROM (SELECT k FROM (SELECT k, n FROM r WHERE n > 0) y WHERE y.n < 5) x

SELECT window.start AS start, window.end AS end, count(*) AS c, sum(k) AS s FROM r GROUP BY window(at, '10 minutes')

SELECT window(at, '1 hour', '30 minutes', '5 minutes').start AS w, k, max(n) AS m FROM r GROUP BY window(at, '1 hour', '30 minutes', '5 minutes'), k

SELECT max(c) AS busiest FROM (SELECT count(*) AS c FROM r GROUP BY window(at, '1 day'), ok)

SELECT ascii(name) AS a, chr(k + 65) AS b, base64(name) AS c, hex(k) AS d, hex(name) AS e, sha2(name, 256) AS f, sha(name) AS g, crc32(name) AS h FROM r

SELECT trim(BOTH 'an' FROM name) AS a, btrim(name, 'a') AS b, ltrim('a', name) AS c, rtrim('n', name) AS d, trim(LEADING 'a' FROM name) AS e, btrim(name) AS f FROM r

SELECT substring_index(name, 'a', 1) AS a, overlay(name, '_', 2) AS b, levenshtein(name, 'ann') AS c, soundex(name) AS d, instr(name, 'n') AS e, locate('n', name, 3) AS f, position('n' IN name) AS g FROM r

SELECT printf('%s: %05d', name, k) AS a, format_number(amount, 1) AS b, elt(2, 'a', name) AS c, find_in_set(name, 'a,ann,bob') AS d FROM r

SELECT k & n AS a, k | 3 AS b, k ^ 1 AS c, ~k AS d, shiftleft(k, 2) AS e, bit_count(k) AS f, bin(k) AS g, conv(k::string, 10, 16) AS h FROM r

SELECT try_cast(name AS int) AS a, try_divide(k, n) AS b, try_add(k, 2147483647) AS c, try_to_date(name) AS d, nullifzero(k) AS e, zeroifnull(n) AS f, equal_null(k, n) AS g FROM r

SELECT log(2, 8) AS a, log(3, abs(k) + 1) AS b, cbrt(k) AS c, hypot(k, n) AS d, bround(amount, 1) AS e, width_bucket(k, 0, 10, 5) AS f, isnan(x) AS g, nanvl(x, 1) AS h, positive(k) AS i, negative(k) AS j FROM r

SELECT regexp_count(name, 'n') AS a, regexp_substr(name, '[b-z]+') AS b, regexp_instr(name, 'n') AS c, regexp_like(name, '^a') AS d, decode(encode(name, 'UTF-8'), 'UTF-8') AS e FROM r

SELECT k, array(k, n, 1) AS a, size(array(k, n)) AS b, array_contains(array(k, n), 1) AS c, array(k, n)[0] AS d, element_at(array(k, n), -1) AS e, array_position(array(k, n), k) AS f FROM r

SELECT split(name, 'a') AS a, array_join(split(name, ''), '-') AS b, sort_array(array(k, n)) AS c, array_distinct(array(k, n, k)) AS d, concat(array(k), array(n)) AS e, reverse(array(k, n)) AS f FROM r

SELECT k, array_union(array(k), array(n)) AS a, array_min(array(k, n)) AS b, array_max(array(k, n)) AS c, slice(array(k, n), 1, 1) AS d, cast(array(k, n) AS array<string>) AS e, flatten(array(array(k), array(n))) AS f FROM r

SELECT k, transform(array(k, n), x -> x + r.k) AS a, filter(array(k, n), e -> e > 0) AS b, exists(array(k, n), x -> x = 1) AS c, forall(array(k, n), x -> x IS NOT NULL) AS d, transform(array(k, n), x -> size(filter(array(n, 1), y -> y = x))) AS e FROM r WHERE k < 1000

SELECT r.k, e FROM r LATERAL VIEW explode(array(k, n)) x AS e

SELECT r.k, x.e, p FROM r LATERAL VIEW OUTER posexplode(CASE WHEN ok THEN array(k, n) END) x AS p, e WHERE p IS NULL OR p < 1

SELECT r.k, x.e FROM r, LATERAL explode(split(name, 'n')) AS x(e) WHERE e <> ''

SELECT k, explode(array(k, n)) AS e FROM r WHERE k > 0

SELECT id, posexplode(sequence(1, 3)) AS (p, e) FROM r

SELECT id, explode_outer(CASE WHEN ok THEN array(k) END) FROM r

SELECT e, count(*) AS n FROM (SELECT explode(split(name, '')) AS e FROM r) GROUP BY e

SELECT a.e, s.label FROM (SELECT k, explode(array(k, n)) AS e FROM r) a JOIN s ON s.k = a.e

SELECT x.col0 AS a, x.col1 AS b FROM r LATERAL VIEW stack(2, k, name, 7, 'x') x AS col0, col1

SELECT r.id, d FROM r LATERAL VIEW explode(sequence(day, day + INTERVAL 2 DAYS)) x AS d

SELECT id, explode(sequence(0, 2)) AS e FROM range(3)

SELECT t.e + 1 AS e FROM explode(array(1, 2)) AS t(e)

SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY id, n, x, amount, name, day, at, ok) AS a, rank() OVER w AS b, dense_rank() OVER (w) AS c, percent_rank() OVER w AS d, cume_dist() OVER w AS e FROM r WINDOW w AS (PARTITION BY k ORDER BY n DESC)

SELECT id, ntile(3) OVER w AS a, lag(n) OVER w AS b, lead(n, 2, -1L) OVER w AS c, lag(name, 1, 'none') OVER w AS d, lead(x) IGNORE NULLS OVER w AS e, lag(amount, 2) IGNORE NULLS OVER w AS f FROM r WINDOW w AS (ORDER BY k, id, n, x, amount, name, day, at, ok)

SELECT k, first_value(n) OVER w AS a, last_value(n) OVER w AS b, nth_value(n, 2) OVER w AS c, first_value(x, true) OVER w AS d, last(name) IGNORE NULLS OVER w AS e FROM r WINDOW w AS (PARTITION BY k ORDER BY id, n, x, amount, name, day, at, ok ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)

SELECT k, sum(n) OVER (PARTITION BY k) AS a, count(*) OVER () AS b, avg(amount) OVER (PARTITION BY k ORDER BY day) AS c, min(at) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING) IS NULL AS d, max(name) OVER (PARTITION BY ok ORDER BY n DESC NULLS FIRST) AS e FROM r

SELECT n, count(*) OVER (ORDER BY n RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS a, sum(k) OVER (ORDER BY n DESC RANGE BETWEEN CURRENT ROW AND 3 FOLLOWING) AS b, count(k) OVER (ORDER BY amount RANGE BETWEEN 1.50 PRECEDING AND CURRENT ROW) AS c FROM r

SELECT day, sum(n) OVER (ORDER BY day RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS a, count(*) OVER (ORDER BY at RANGE BETWEEN INTERVAL '24' HOUR PRECEDING AND INTERVAL '2' HOUR FOLLOWING) AS b, min(k) OVER (PARTITION BY ok ORDER BY at DESC RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '1' HOUR FOLLOWING) AS c, max(n) OVER (ORDER BY at RANGE BETWEEN INTERVAL '2' MONTH PRECEDING AND CURRENT ROW) AS d FROM r

SELECT k, sum(n) AS total, sum(sum(n)) OVER (ORDER BY k) AS running, sum(n) / sum(sum(n)) OVER () > 0.5 AS big, rank() OVER (ORDER BY count(*) DESC) AS place FROM r GROUP BY k HAVING count(*) > 0

SELECT k, n - lag(n) OVER (PARTITION BY k ORDER BY id, n, x, amount, name, day, at, ok) AS step, CASE WHEN row_number() OVER (PARTITION BY k ORDER BY id, n, x, amount, name, day, at, ok) = 1 THEN 'first' ELSE 'later' END AS place FROM r WHERE n IS NOT NULL

SELECT k, n, total FROM (SELECT k, n, sum(n) OVER (PARTITION BY k) AS total, row_number() OVER (PARTITION BY k ORDER BY n, id, n, x, amount, name, day, at, ok) AS rn FROM r) q WHERE rn <= 2 AND total > n

SELECT t.k, w.n, w.before FROM t JOIN (SELECT k, n, lag(n) OVER (PARTITION BY k ORDER BY n, price, label, at) AS before FROM s) w ON w.k = t.k WHERE w.before IS NOT NULL

SELECT k, stddev(x) OVER (PARTITION BY k ORDER BY id, n ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) IS NULL AS a, var_pop(k) OVER (PARTITION BY ok) AS b, count(n) FILTER (WHERE ok) OVER (PARTITION BY k) AS c FROM r WHERE x > 0

SELECT get_json_object(concat('{"k":', k, ',"o":{"l":[1,"a"]}}'), '$.o.l[1]') AS a, json_array_length(concat('[', k, ',2]')) AS b, json_object_keys(concat('{"', name, '":1}')) AS c, from_json(concat('["', name, '"]'), 'array<string>') AS d FROM r

SELECT x.a, x.b FROM r LATERAL VIEW json_tuple(concat('{"a":', k, ',"b":"', name, '"}'), 'a', 'b') x AS a, b

SELECT timestampdiff(MONTH, at, TIMESTAMP '2024-03-31 00:00:00') AS a, timestampdiff(DAY, day, at) AS b, dateadd(HOUR, 5, at) AS c, date_diff(WEEK, day, at) AS d, date_add(day, 2) AS e, datediff(at, day) AS f, months_between(at, day) AS g FROM r

SELECT to_date('17/05/2024', 'dd/MM/yyyy') AS a, to_timestamp(date_format(at, 'yyyy-MM-dd HH:mm'), 'yyyy-MM-dd HH:mm') AS b, try_to_timestamp(name, 'yyyy') AS c, unix_timestamp('2024-05-17', 'yyyy-MM-dd') AS d, to_date(at) AS e, try_to_date(name, 'yyyy-MM-dd') AS f FROM r

SELECT extract(SECOND FROM at) AS a, extract(WEEK FROM day) AS b, extract(YEAROFWEEK FROM day) AS c, extract(DAYOFWEEK_ISO FROM day) AS d, dayname(day) AS e, monthname(day) AS f, trunc(day, 'MM') AS g, next_day(day, 'MON') AS h, from_unixtime(k) AS i, timestamp_seconds(k) AS j, unix_millis(at) AS l, make_timestamp(2024, 2, 29, 1, 2, 3.5) AS m FROM r

SELECT r.id, v, w FROM r LATERAL VIEW explode(array(k, n)) e AS v LATERAL VIEW explode(array(v, 1)) f AS w

SELECT r.id, s.label, e FROM r JOIN s ON r.k = s.k LATERAL VIEW explode(array(r.n, s.n)) t AS e

SELECT k, size(collect_set(e)) AS n FROM (SELECT k, explode(array(n, k)) AS e FROM r) GROUP BY k

SELECT aggregate(array(k, 1), 0, (s, e) -> s + e) AS a, reduce(array(n, 1L), 0L, (s, e) -> greatest(s, e)) AS b, transform(array(k), x -> aggregate(array(k, x), 0, (s, e) -> s + e + x)) AS c FROM r WHERE abs(k) < 1000

SELECT * FROM (SELECT k, name, amount FROM r) PIVOT (sum(amount) FOR name IN ('a' AS first, 'b'))

SELECT p.x_c, p.y_m FROM (SELECT k, name, n FROM r) PIVOT (count(*) AS c, max(n) AS m FOR (name, k) IN (('a', 1) AS x, ('b', 2) AS y)) AS p

SELECT * FROM (SELECT id, k, name FROM r) PIVOT (count(DISTINCT name) FOR k IN (1, -1, NULL)) WHERE id > 0

SELECT u.id, u.what, v, s.label FROM (SELECT id, k, n FROM r) UNPIVOT (v FOR what IN (k, n AS other)) AS u JOIN s ON s.k = u.id

SELECT * FROM (SELECT id, k, n, day FROM r) UNPIVOT INCLUDE NULLS ((a, b) FOR what IN ((k, n), (n, k) AS turned))

SELECT * FROM (SELECT id, k, n FROM r) UNPIVOT EXCLUDE NULLS ((a, b) FOR what IN ((k, n), (n, k)))

SELECT k, regr_count(x, n) AS c, regr_avgx(x, n) AS ax, regr_avgy(x, n) AS ay, regr_sxx(n, k) AS sx, regr_syy(n, k) AS sy, regr_sxy(n, k) AS xy FROM r GROUP BY k

SELECT ok, regr_slope(n, k) AS s, regr_intercept(n, k) AS i, regr_r2(n, id) AS q, regr_slope(k, id) FILTER (WHERE n > 0) * 2 AS f FROM r WHERE abs(k) < 1000 AND abs(n) < 1000 GROUP BY ok

SELECT q.c, max(q.c) OVER (PARTITION BY q.c) AS m, count(*) OVER () AS n FROM (SELECT 1 AS c FROM r) AS q

SELECT id, sort_array(collect_list(n) OVER (PARTITION BY k ORDER BY id)) AS a, sort_array(collect_set(n) OVER (PARTITION BY ok ORDER BY k)) AS b, bool_and(ok) OVER (PARTITION BY k) AS c, size(collect_set(name) OVER (ORDER BY k RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)) AS d, percentile(k, 0.5) OVER (PARTITION BY ok) AS e, bit_or(n) OVER (PARTITION BY name ORDER BY id) AS f FROM r

SELECT k, percentile(n, array(0.25, 0.75)) AS a, percentile_approx(id, array(0.5, 0.9), 100) FILTER (WHERE ok) AS b FROM r GROUP BY k
