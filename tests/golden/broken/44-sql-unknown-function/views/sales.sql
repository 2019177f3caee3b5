SELECT uppr(name) AS a, upper(name, 2) AS b
FROM customers
