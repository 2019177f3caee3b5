SELECT id, totl FROM orders
