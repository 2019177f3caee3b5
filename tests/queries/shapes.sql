-- Queries over the sources r, s and t of `headrace.testing`, one per paragraph, that DuckDB has and Spark has not, or not in this form.

SELECT 1 AS x

SELECT 1 AS x, 'a' AS y WHERE 1 = 2

VALUES (1, 'a'), (2, 'b')

SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(k, label)

SELECT r.id, v.label FROM r JOIN (VALUES (1, 'one'), (2, 'two')) AS v(k, label) ON r.k = v.k

SELECT r.id, v.label FROM (VALUES (1, 'one'), (2, 'two')) AS v(k, label) LEFT JOIN r ON r.k = v.k

WITH v(a) AS (VALUES (1), (2)) SELECT id FROM r WHERE k IN (SELECT a FROM v)

SELECT id FROM r WHERE k IN (VALUES (1), (2))

SELECT k FROM r UNION ALL SELECT 7

SELECT k FROM r UNION ALL VALUES (7), (8)

WITH a AS (SELECT 1 AS x) SELECT r.id + a.x AS y FROM r CROSS JOIN a

SELECT count(*) AS n FROM (SELECT 1 AS a UNION ALL SELECT 2) q

SELECT id, (SELECT 5) AS five FROM r

SELECT DISTINCT ON (k) k, id, name FROM r ORDER BY k, id

SELECT DISTINCT ON (k, ok) k, ok, id, n FROM r ORDER BY k, ok DESC, id DESC, n, name

SELECT DISTINCT ON (k) k, id FROM r ORDER BY k, id LIMIT 3

SELECT id, k FROM r ORDER BY id, k OFFSET 2

SELECT r.id, (SELECT s.label FROM s WHERE s.k = r.k ORDER BY s.label DESC LIMIT 1) AS l FROM r

SELECT * FROM (SELECT k, id FROM r) a NATURAL JOIN (SELECT k, label FROM s) b

SELECT * FROM (SELECT k, id FROM r) a NATURAL LEFT JOIN (SELECT k, label FROM s) b

SELECT * FROM (SELECT k, id FROM r) a NATURAL FULL JOIN (SELECT k, label FROM s) b

SELECT id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k ORDER BY label LIMIT 1)

SELECT id FROM r WHERE name IN (SELECT label FROM s WHERE s.k = r.k ORDER BY label LIMIT 1)

SELECT id FROM r WHERE k = 1 OR EXISTS (SELECT 1 FROM s WHERE s.k = r.k)

SELECT id FROM r WHERE k = 1 OR k IN (SELECT k FROM s)

SELECT id FROM r WHERE k = 1 OR k NOT IN (SELECT k FROM s)

SELECT id FROM r WHERE k = 1 OR k NOT IN (SELECT s.k FROM s WHERE s.label = r.name)

SELECT id, EXISTS (SELECT 1 FROM s WHERE s.k > r.k) AS e, k IN (SELECT k FROM s) AS i, k NOT IN (SELECT k FROM s) AS ni FROM r

SELECT id, k < ANY (SELECT k FROM s) AS a, k >= ALL (SELECT k FROM s) AS b, k <> ANY (SELECT k FROM s) AS c, k = ALL (SELECT k FROM s) AS d FROM r

SELECT id, k <= ANY (SELECT s.k FROM s WHERE s.label = r.name) AS a, k > ALL (SELECT s.k FROM s WHERE s.label = r.name) AS b FROM r

SELECT id FROM r WHERE k = ANY (SELECT k FROM s)

SELECT id FROM r WHERE k <> ALL (SELECT k FROM s)

SELECT id FROM r WHERE k > ALL (SELECT k FROM s)

SELECT id FROM r WHERE k < SOME (SELECT k FROM s WHERE s.label <> r.name)

SELECT id, (SELECT count(*) FROM s WHERE s.k > r.k) AS n, (SELECT sum(s.k) FROM s WHERE s.k < r.k) AS t FROM r

SELECT id, (SELECT max(s.k * r.k) FROM s WHERE s.label = r.name) AS m FROM r

SELECT id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND EXISTS (SELECT 1 FROM t WHERE t.k = r.id AND t.k > s.k))

SELECT id FROM r WHERE EXISTS (SELECT max(k) FROM s WHERE s.k = r.k)

SELECT id FROM r WHERE EXISTS (SELECT 1 FROM s LEFT JOIN t ON t.k = r.id WHERE s.k = 1)

SELECT id, (SELECT s.label FROM s WHERE s.k >= r.k ORDER BY s.k, s.label LIMIT 1) AS l FROM r

SELECT id, (SELECT count(DISTINCT label) FROM s WHERE s.k = r.k HAVING count(*) > 1) AS c FROM r

SELECT k, sum(n) AS total, (SELECT count(*) FROM s WHERE s.k = r.k) AS c FROM r GROUP BY k

SELECT k, count(*) AS c FROM r GROUP BY k HAVING count(*) > (SELECT min(k) FROM s) OR EXISTS (SELECT 1 FROM t WHERE t.k = r.k)

SELECT CASE WHEN EXISTS (SELECT 1 FROM s WHERE s.k = r.k) THEN 'y' ELSE 'n' END AS x, id FROM r

SELECT id FROM r WHERE NOT (k IN (SELECT k FROM s) AND ok)

SELECT id FROM r WHERE (k, name) IN (SELECT k, label FROM s) OR ok

SELECT id FROM r WHERE (k, name) NOT IN (SELECT k, label FROM s)

SELECT sum(CASE WHEN k IN (SELECT k FROM s) THEN 1 ELSE 0 END) AS c FROM r

SELECT id, (SELECT max(x) FROM (SELECT s.k + r.k AS x FROM s) q) AS m FROM r

SELECT id, (SELECT sum(c) FROM (SELECT count(*) AS c FROM s WHERE s.k = r.k GROUP BY label) q) AS m FROM r

SELECT id, r.k IN (SELECT k FROM s UNION SELECT k FROM t) AS b FROM r

SELECT id FROM r WHERE EXISTS (SELECT k FROM s WHERE s.k = r.k INTERSECT SELECT k FROM t)

SELECT r.id, l.label FROM r, LATERAL (SELECT label FROM s WHERE s.k = r.k) l

SELECT r.id, l.label, l.k FROM r LEFT JOIN LATERAL (SELECT label, s.k FROM s WHERE s.k = r.k ORDER BY label LIMIT 2) l ON TRUE

SELECT r.id, l.c, l.m FROM r CROSS JOIN LATERAL (SELECT count(*) AS c, max(label) AS m FROM s WHERE s.k = r.k) l

SELECT r.id, l.c FROM r LEFT JOIN LATERAL (SELECT count(*) + 1 AS c FROM s WHERE s.k > r.k) l ON TRUE

SELECT r.id, x.y, z.w FROM r, LATERAL (SELECT r.k + 1 AS y) x, LATERAL (SELECT x.y * 2 AS w) z

SELECT r.id, u.name, u.v FROM r CROSS JOIN LATERAL (VALUES ('k', r.k), ('n', r.id)) AS u(name, v)

SELECT r.id, l.label FROM r JOIN LATERAL (SELECT label FROM s WHERE s.k < r.k ORDER BY s.k, label LIMIT 1) l ON l.label <> 'a'

SELECT r.id, l.t FROM r LEFT JOIN LATERAL (SELECT s.k + r.k AS t FROM s WHERE s.k <= r.k) l ON l.t > 1

SELECT id, (SELECT count(*) FROM s FULL JOIN t ON t.k = s.k AND t.k = r.id WHERE s.k = r.k OR t.k = r.k) AS c FROM r

SELECT id FROM r WHERE k IN (SELECT k FROM s WHERE s.label = r.name UNION ALL SELECT k FROM t WHERE t.k > r.id)

SELECT id, (SELECT count(*) FROM (SELECT DISTINCT label FROM s WHERE s.k >= r.k) q) AS c FROM r

SELECT id, (SELECT sum(s.k) FROM s WHERE s.k = r.k AND s.label IN (SELECT r.name UNION ALL SELECT 'a')) AS c FROM r

SELECT k FROM r EXCEPT ALL SELECT k FROM s

SELECT k, n FROM r INTERSECT ALL SELECT k, n FROM s

(SELECT k FROM r UNION ALL SELECT k FROM s) EXCEPT ALL (SELECT k FROM t EXCEPT SELECT k FROM s)

SELECT k FROM r EXCEPT ALL SELECT k FROM s EXCEPT ALL SELECT k FROM t

SELECT k FROM r EXCEPT (SELECT k FROM s INTERSECT ALL SELECT k FROM t)

SELECT k FROM r UNION ALL SELECT k FROM s INTERSECT ALL SELECT k FROM t

SELECT k, id FROM r UNION ALL BY NAME SELECT label, k FROM s

SELECT k FROM r UNION BY NAME SELECT n, k FROM s

SELECT id, (SELECT count(*) FROM s WHERE s.k = r.k HAVING count(*) < 2) AS c, (SELECT 5 FROM s WHERE s.k = r.k HAVING true) AS d FROM r

SELECT k IN (SELECT k FROM s) AS a, (SELECT count(*) FROM s WHERE s.k = r.k) AS b, count(*) AS c, count(NULL) AS d, count(DISTINCT NULL) AS e FROM r GROUP BY 1, b

SELECT id, (WITH w AS (SELECT * FROM s WHERE s.k = r.k) SELECT count(*) FROM w a JOIN w b ON a.n = b.n) AS c FROM r

SELECT id, n IN (SELECT r.k + s.k FROM s) AS a, ok OR k IN (SELECT r.k FROM s WHERE s.n > r.n) AS b FROM r

SELECT v.c, count(*) AS n FROM (SELECT x.id, y.k FROM r x FULL JOIN r y ON x.k = y.id) a JOIN LATERAL (SELECT a.id AS c UNION ALL SELECT a.k) v ON TRUE GROUP BY v.c

SELECT id FROM r WHERE n IN (SELECT sum(s.k) FROM s GROUP BY r.n)

SELECT id, (SELECT max(q.c) FROM (SELECT r.k AS a, count(*) AS c FROM s GROUP BY r.k, s.k UNION ALL SELECT 1, r.n FROM t) q) AS m FROM r
