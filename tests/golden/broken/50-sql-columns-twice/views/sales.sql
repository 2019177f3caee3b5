SELECT id, more
FROM (SELECT orders.id, customers.id, total + 1 AS more FROM orders JOIN customers ON customer = customers.id) AS both
