SELECT id, sum(total) OVER (ORDER BY placed) AS running
FROM orders
