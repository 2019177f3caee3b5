-- The places within 150 m of a phone.
SELECT
    places.place,
    places.name
FROM a.location AS here
JOIN places
    ON distance(here.lat, here.lng, places.lat, places.lng) < 150
