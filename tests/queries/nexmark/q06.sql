-- Average selling price by seller
SELECT
  q.seller,
  avg(q.final) OVER (PARTITION BY q.seller ORDER BY q.dateTime ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average
FROM (
  SELECT max(b.price) AS final, a.seller, b.dateTime
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
  GROUP BY a.id, a.seller, b.dateTime
) AS q
