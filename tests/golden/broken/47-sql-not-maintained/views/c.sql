SELECT country, count(*) AS n
FROM customers
GROUP BY CUBE (country, name)
