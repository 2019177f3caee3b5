-- The ten places with the most check-ins.
SELECT places.place, places.name, places.city, count(*) AS checkins
FROM checkins
JOIN places ON checkins.place = places.place
GROUP BY places.place, places.name, places.city
ORDER BY checkins DESC
LIMIT 10
