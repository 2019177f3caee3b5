-- Twenty people; `views` is how many views each phone takes at most.
CREATE TABLE people (
    uid bigint PRIMARY KEY,
    name text NOT NULL,
    views int NOT NULL
);
INSERT INTO people (uid, name, views)
SELECT
    n,
    (ARRAY['anna', 'bela', 'cem', 'dara', 'emil', 'fay', 'goro', 'hana', 'ivo', 'juno',
           'kim', 'lena', 'milo', 'nora', 'otto', 'pia', 'quin', 'rosa', 'sam', 'tess'])[n],
    20
FROM generate_series(1, 20) AS n;

-- Each pair of friends once: one row for the two of them.
CREATE TABLE friends (
    uid bigint NOT NULL REFERENCES people (uid) ON DELETE CASCADE,
    friend bigint NOT NULL REFERENCES people (uid) ON DELETE CASCADE,
    PRIMARY KEY (uid, friend),
    CHECK (uid < friend)
);
INSERT INTO friends (uid, friend)
SELECT n, n + 1 FROM generate_series(1, 19, 2) AS n;
INSERT INTO friends (uid, friend) VALUES (1, 6), (2, 5), (3, 8), (4, 7);
