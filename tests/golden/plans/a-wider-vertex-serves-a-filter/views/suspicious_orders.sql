SELECT o.id, o.total
FROM orders o JOIN customers c ON o.customer = c.id
WHERE o.total > 1000 AND c.country = 'fr'
