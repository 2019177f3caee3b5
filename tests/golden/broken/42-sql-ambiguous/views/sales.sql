SELECT id, name
FROM orders
JOIN customers ON customer = customers.id
