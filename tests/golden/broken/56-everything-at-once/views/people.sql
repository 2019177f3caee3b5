SELECT name FROM customers
