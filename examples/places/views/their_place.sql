-- The same for the other one of the pair. Both are one stream of a phone, `my_place`, since they mean the same.
SELECT
    places.place,
    places.name
FROM b.location AS there
JOIN places
    ON distance(there.lat, there.lng, places.lat, places.lng) < 150
