-- Auction top-10 price
SELECT *
FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
  FROM bid
) AS ranked
WHERE rank_number <= 10
