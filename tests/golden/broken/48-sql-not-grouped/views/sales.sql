SELECT country, name, count(*) AS n
FROM customers
GROUP BY country
