SELECT orders.id, customers.id, total + 1
FROM orders JOIN customers ON customer = customers.id
