-- What people write about places in London.
SELECT posts.post, users.name AS author, places.name AS place, places.kind, posts.body, posts.likes
FROM posts
JOIN users ON posts.uid = users.uid
JOIN places ON posts.place = places.place
WHERE places.city = 'London'
