-- 0.4 /s: somebody moves
UPDATE users
SET city = (ARRAY['London', 'Paris', 'Berlin', 'Tokyo', 'Seoul', 'Boston', 'Austin', 'Lima'])[1 + floor(random() * 8)]
WHERE uid = 1 + (SELECT floor(random() * 2000)::bigint);

-- 0.2 /s: somebody joins
INSERT INTO users (name, city) VALUES ('new' || floor(random() * 100000), 'London');
