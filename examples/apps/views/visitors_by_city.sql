-- Check-ins of each city, and how many people made them.
SELECT places.city, count(*) AS checkins, count(DISTINCT checkins.uid) AS people
FROM checkins
JOIN places ON checkins.place = places.place
GROUP BY places.city
