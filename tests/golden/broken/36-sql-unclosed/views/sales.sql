SELECT count(* FROM orders
WHERE total > 5
