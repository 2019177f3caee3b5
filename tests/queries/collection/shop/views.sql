CREATE MATERIALIZED VIEW big AS SELECT id, total FROM orders WHERE total > 100;
CREATE OR REPLACE VIEW "sums" (customer, total) AS (SELECT customer_id, sum(total) FROM orders GROUP BY 1);
SELECT count(*) FROM big; select  COUNT(*) from big;
-- Refused, and Spark can run it:
SELECT customer_id, regr_count(total, id) AS n, try_sum(id) AS s FROM orders GROUP BY customer_id;
SELECT id FROM orders TABLESAMPLE BERNOULLI (10);
SELECT idd FROM orders;
SELECT place FROM customers;
SELECT id, at AT TIME ZONE 'Europe/Paris' AS there, PRIMARY_CONTACT FROM visits GROUP BY id;
SELECT FROM WHERE;
DROP TABLE orders;
CREATE TABLE orders (nr int);
SELECT nr FROM orders;

-- A table by the name of a schema that nobody created here.
SELECT count(*) AS n FROM raw.orders WHERE nr > 1;
