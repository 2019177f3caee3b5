SELECT o.id
FROM order o
JOIN regions r ON r.id = o.id
