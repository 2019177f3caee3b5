SELECT id, rand() AS n
FROM orders
