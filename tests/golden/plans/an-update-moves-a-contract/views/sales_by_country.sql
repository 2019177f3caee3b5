SELECT c.country, sum(o.total) AS total
FROM orders o JOIN customers c ON o.customer = c.id
GROUP BY c.country
