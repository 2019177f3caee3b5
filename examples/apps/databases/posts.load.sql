-- 5 /s: somebody writes
INSERT INTO posts (uid, place, body)
VALUES (1 + floor(random() * 2000), 1 + floor(random() * 300), 'written at ' || to_char(clock_timestamp(), 'HH24:MI:SS'));

-- 3 /s: somebody likes
UPDATE posts SET likes = likes + 1
WHERE post = (SELECT max(post) FROM posts) - (SELECT floor(random() * 3000)::bigint);

-- 1 /s: somebody takes it back
DELETE FROM posts WHERE post = (SELECT max(post) FROM posts) - (SELECT floor(random() * 8000)::bigint);
