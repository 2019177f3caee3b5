SELECT id, name + 1 AS x, placed * 2 AS y
FROM customers
JOIN orders USING (id)
WHERE name AND total = placed
