SELECT customer
FROM orders
WHERE sum(total) > 5
GROUP BY customer
