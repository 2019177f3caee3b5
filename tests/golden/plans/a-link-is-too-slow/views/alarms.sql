SELECT id, sensor, value
FROM readings
WHERE value > 100
