-- Views of a shop, an IoT fleet and a ledger as people write them for PostgreSQL, one per paragraph, over the sources of `tests/live/test_postgres_views.py`.

SELECT c.country, date_trunc('month', o.placed_at)::date AS month, count(*) AS orders, sum(o.total) AS revenue FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.status <> 'cancelled' GROUP BY 1, 2

SELECT c.id, c.name, coalesce(sum(o.total), 0) AS lifetime_value, max(o.placed_at) AS last_order FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.id, c.name

SELECT o.id, o.total, round(o.total * 0.19, 2) AS vat, round(o.total / 3, 2) AS third, o.quantity / 3 AS boxes, o.quantity % 3 AS rest FROM orders o

SELECT status, count(*) FILTER (WHERE total > 10) AS large, count(*) AS all_orders, round(100.0 * count(*) FILTER (WHERE total > 10) / count(*), 1) AS percent FROM orders GROUP BY status

SELECT to_char(placed_at, 'YYYY-MM') AS month, count(DISTINCT customer_id) AS buyers, round(avg(total), 2) AS mean FROM orders GROUP BY to_char(placed_at, 'YYYY-MM')

SELECT id, name FROM customers WHERE name ILIKE 'a%' OR name ~ '^[A-Z]' OR country = ANY (ARRAY['a', 'b'])

SELECT c.name || ' (' || coalesce(c.country, '?') || ')' AS label, left(c.name, 1) AS initial, length(c.name) AS letters FROM customers c

SELECT customer_id, id, total FROM (SELECT customer_id, id, total, row_number() OVER (PARTITION BY customer_id ORDER BY placed_at DESC, id, total DESC) AS rn FROM orders) latest WHERE rn = 1

SELECT name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.status = 'a')

SELECT CASE WHEN total >= 50 THEN 'large' WHEN total >= 1 THEN 'medium' ELSE 'small' END AS size, count(*) AS n, sum(quantity) AS items FROM orders GROUP BY 1

SELECT device_id, date_trunc('hour', measured_at) AS hour, min(celsius) AS coldest, max(celsius) AS hottest, count(*) AS n FROM readings WHERE celsius < 1000 GROUP BY device_id, date_trunc('hour', measured_at)

SELECT d.site, round(avg(r.celsius)::numeric, 2) AS mean FROM readings r JOIN devices d USING (device_id) WHERE r.celsius < 1000 GROUP BY d.site

SELECT device_id, extract(hour FROM measured_at) AS hour, (celsius * 9 / 5 + 32)::numeric(8, 1) AS fahrenheit FROM readings WHERE celsius < 1000

SELECT d.device_id, d.installed + 365 AS service_due, d.installed + interval '1 year' AS warranty_until, DATE '2024-03-01' - d.installed AS age_in_days FROM devices d

SELECT r.device_id, extract(epoch FROM r.measured_at - TIMESTAMP '2024-01-01') / 3600 AS hours, r.ok IS TRUE AS healthy FROM readings r

SELECT site, string_agg(model, ', ' ORDER BY model COLLATE "C") AS models, bool_or(model LIKE 'A%') AS has_a FROM devices GROUP BY site

SELECT account, sum(CASE WHEN side = 'a' THEN amount ELSE -amount END) AS balance FROM entries GROUP BY account HAVING sum(amount) <> 0

SELECT booked::date AS day, sum(amount) AS turnover, sum(amount)::int AS rounded, count(*) AS n FROM entries WHERE booked >= '2024-01-01' GROUP BY booked::date

SELECT a.account, b.account AS other, a.amount FROM entries a JOIN entries b ON a.transfer = b.transfer AND a.side <> b.side

SELECT transfer FROM entries GROUP BY transfer HAVING count(*) <> 2 OR sum(amount) IS DISTINCT FROM 0

SELECT account, side, amount FROM entries WHERE amount > (SELECT avg(amount) FROM entries) UNION ALL SELECT account, 'total', sum(amount) FROM entries GROUP BY account

SELECT id, customer_id, total FROM orders WHERE placed_at >= now() - interval '7 days' OR status = 'a'

SELECT count(*) FILTER (WHERE placed_at::date = current_date) AS today, count(*) FILTER (WHERE placed_at >= date_trunc('month', now())) AS this_month, count(*) AS ever FROM orders

SELECT c.id, c.name, CASE WHEN max(o.placed_at) > now() - interval '30 days' THEN 'active' WHEN max(o.placed_at) IS NULL THEN 'never' ELSE 'dormant' END AS state FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.id, c.name

SELECT device_id, current_date - installed AS age_in_days, installed < current_date - 365 AS is_old FROM devices

SELECT d.device_id, d.site FROM devices d LEFT JOIN readings r ON r.device_id = d.device_id AND r.measured_at > now() - interval '1 hour' GROUP BY d.device_id, d.site HAVING count(r.device_id) = 0

SELECT account, sum(amount) FILTER (WHERE extract(year FROM booked) = extract(year FROM now())) AS this_year, sum(amount) FILTER (WHERE booked < date_trunc('year', now())) AS before FROM entries GROUP BY account

SELECT account FROM entries WHERE side = 'a' EXCEPT ALL SELECT account FROM entries WHERE side = 'b'

(SELECT name FROM customers EXCEPT SELECT site FROM devices) INTERSECT ALL (SELECT model FROM devices UNION ALL SELECT country FROM customers)

SELECT a.transfer, a.account, b.account AS other FROM entries a JOIN entries b ON a.booked BETWEEN b.booked - interval '1 hour' AND b.booked + interval '1 hour' AND a.account < b.account

SELECT o.id, t.label FROM orders o JOIN (VALUES (0, 10, 'small'), (10, 50, 'medium'), (50, 100000, 'large')) AS t(low, high, label) ON o.total >= t.low AND o.total < t.high

WITH monthly AS (SELECT customer_id, date_trunc('month', placed_at) AS month, sum(total) AS total FROM orders GROUP BY 1, 2) SELECT m.customer_id, m.month, m.total, p.total AS before FROM monthly m LEFT JOIN monthly p ON p.customer_id = m.customer_id AND p.month = m.month - interval '1 month'

SELECT r.device_id, r.measured_at, r.celsius - b.mean AS off FROM readings r JOIN (SELECT device_id, avg(celsius) AS mean FROM readings WHERE celsius < 1000 GROUP BY device_id) b USING (device_id) WHERE r.celsius < 1000 AND abs(r.celsius - b.mean) > 1
