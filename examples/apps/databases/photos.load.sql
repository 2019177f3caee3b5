-- 2 /s: somebody takes a photo
INSERT INTO photos (uid, place, title, stars)
VALUES (1 + floor(random() * 2000), 1 + floor(random() * 300), 'taken just now', floor(random() * 6));

-- 1 /s: the jury changes its mind
UPDATE photos SET stars = floor(random() * 6) WHERE photo = 1 + (SELECT floor(random() * 5000)::bigint);

-- 0.5 /s: somebody deletes a photo
DELETE FROM photos WHERE photo = 1 + (SELECT floor(random() * 5000)::bigint);
