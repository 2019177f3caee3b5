SELECT
    mine.place,
    mine.name
FROM my_place AS mine
JOIN their_place AS theirs
    ON mine.place = theirs.place
