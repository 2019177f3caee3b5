SELECT id FROM orders
UNION ALL
SELECT id, name FROM customers
