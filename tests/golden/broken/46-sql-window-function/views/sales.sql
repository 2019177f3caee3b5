SELECT id, try_sum(total) OVER (ORDER BY placed) AS running
FROM orders
