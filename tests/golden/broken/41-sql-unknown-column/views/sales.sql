SELECT idd, orders.totl, c.id
FROM orders
