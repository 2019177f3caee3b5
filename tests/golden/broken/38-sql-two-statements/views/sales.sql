SELECT id FROM orders;
SELECT id FROM customers
