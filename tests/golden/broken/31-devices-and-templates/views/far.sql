SELECT 1 AS one FROM people
