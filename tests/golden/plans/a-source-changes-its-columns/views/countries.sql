SELECT country, count(*) AS customers
FROM customers
GROUP BY country
