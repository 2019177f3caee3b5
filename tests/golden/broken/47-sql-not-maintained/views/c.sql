SELECT o.id, c.name
FROM orders o ASOF JOIN customers c ON o.customer = c.id AND o.placed >= c.name
