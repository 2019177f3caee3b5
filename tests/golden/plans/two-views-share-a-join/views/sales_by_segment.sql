SELECT c.segment, count(*) AS orders
FROM customers c, orders o
WHERE c.id = o.customer
GROUP BY c.segment
