SELECT stddev(total) AS s
FROM orders
