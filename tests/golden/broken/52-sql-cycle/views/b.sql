SELECT id FROM sales
