-- The hundred people with the most messages.
SELECT users.uid, users.name, count(*) AS tweets
FROM tweets
JOIN users ON tweets.uid = users.uid
GROUP BY users.uid, users.name
ORDER BY tweets DESC
LIMIT 100
