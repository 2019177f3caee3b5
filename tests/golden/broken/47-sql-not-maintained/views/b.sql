SELECT histogram_numeric(total, 5) AS s
FROM orders
