-- The twenty people who post the most, and how many likes their posts get.
SELECT users.uid, users.name, count(*) AS posts, sum(posts.likes) AS likes
FROM posts
JOIN users ON posts.uid = users.uid
GROUP BY users.uid, users.name
ORDER BY posts DESC
LIMIT 20
