SELECT explode(array(id, total)) AS n
FROM orders
