-- 0.4 /s: somebody moves
UPDATE users
SET city = (ARRAY['London', 'Paris', 'Berlin', 'Tokyo', 'Seoul', 'Boston', 'Austin', 'Lima'])[1 + floor(random() * 8)]
WHERE uid = 1 + (SELECT floor(random() * 2000)::bigint);

-- 0.2 /s: somebody joins
INSERT INTO users (name, city) VALUES ('new' || floor(random() * 100000), 'London');

-- 0.5 /s: somebody follows somebody
INSERT INTO follows (who, whom)
SELECT a.name, b.name
FROM users AS a, users AS b
WHERE a.uid = 1 + (SELECT floor(random() * 2000)::bigint) AND b.uid = 1 + (SELECT floor(random() * 2000)::bigint)
ON CONFLICT DO NOTHING;

-- 0.3 /s: somebody has seen enough of somebody
DELETE FROM follows
WHERE (who, whom) = (SELECT who, whom FROM follows WHERE whom <> 'hana7' OFFSET floor(random() * 19000) LIMIT 1);
