-- 6 /s: somebody checks in
INSERT INTO checkins (uid, place) VALUES (1 + floor(random() * 2000), 1 + floor(random() * 300));

-- 1 /s: somebody was never there
DELETE FROM checkins WHERE checkin = 1 + (SELECT floor(random() * 10000)::bigint);

-- 0.5 /s: somebody was somewhere else
UPDATE checkins SET place = 1 + floor(random() * 300) WHERE checkin = 1 + (SELECT floor(random() * 10000)::bigint);

-- 0.1 /s: a place gets another owner
UPDATE places SET name = 'Chez ' || place WHERE place = 1 + (SELECT floor(random() * 300)::bigint);
