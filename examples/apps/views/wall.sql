-- Posts with the names of their authors.
SELECT posts.post, users.name AS author, posts.body, posts.likes, posts.at
FROM posts
JOIN users ON posts.uid = users.uid
