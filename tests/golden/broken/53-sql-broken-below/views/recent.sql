SELECT id, totl AS total FROM orders
