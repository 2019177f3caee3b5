SELECT id, percent_rank() OVER (ORDER BY total) AS p FROM orders
