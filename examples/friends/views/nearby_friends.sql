-- Two friends are near each other, and how far apart they are, to the next ten metres.
SELECT
    CAST(10 * ceil(distance(mine.lat, mine.lng, theirs.lat, theirs.lng) / 10) AS int) AS metres
FROM a.location AS mine
JOIN b.location AS theirs
    ON distance(mine.lat, mine.lng, theirs.lat, theirs.lng) < 300
