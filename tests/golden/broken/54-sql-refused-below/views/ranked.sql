SELECT id, regr_count(total, id) OVER (ORDER BY total) AS p FROM orders
