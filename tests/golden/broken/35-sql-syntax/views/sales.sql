SELEC id FROM orders
