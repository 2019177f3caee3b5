-- Check-ins of a friend within 100 m of where somebody is now. A friendship has two rows, one for each who asks.
SELECT
    theirs.at,
    theirs.note
FROM a.location AS here
JOIN b.checkin AS theirs
    ON distance(here.lat, here.lng, theirs.lat, theirs.lng) < 100
