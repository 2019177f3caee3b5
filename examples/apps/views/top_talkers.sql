-- The twenty people who post most, and how well that is received.
SELECT users.uid, users.name, count(*) AS posts, sum(posts.likes) AS likes
FROM posts
JOIN users ON posts.uid = users.uid
GROUP BY users.uid, users.name
ORDER BY posts DESC
LIMIT 20
