SELECT o.id, o.total, c.country
FROM orders o JOIN customers c ON o.customer = c.id
WHERE o.total > 100
