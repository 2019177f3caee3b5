SELECT users.city, count(*) AS tweets, count(DISTINCT tweets.uid) AS people
FROM tweets
JOIN users ON tweets.uid = users.uid
GROUP BY users.city
