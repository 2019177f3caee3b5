-- Highest bid
SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra
FROM bid AS b
JOIN (
  SELECT max(price) AS maxprice, window.end AS endtime
  FROM bid
  GROUP BY window(dateTime, '10 seconds')
) AS b1
ON b.price = b1.maxprice
WHERE b.dateTime BETWEEN b1.endtime - INTERVAL '10' SECOND AND b1.endtime
