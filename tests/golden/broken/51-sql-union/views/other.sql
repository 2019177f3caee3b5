SELECT id FROM orders
UNION ALL
SELECT placed FROM orders
