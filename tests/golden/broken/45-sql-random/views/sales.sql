SELECT id, rand() AS r, current_user() AS u
FROM orders
