SELECT sensor, max(value) AS highest
FROM readings
GROUP BY sensor
