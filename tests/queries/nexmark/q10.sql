-- Log to file system
SELECT
  auction, bidder, price, dateTime, extra,
  date_format(dateTime, 'yyyy-MM-dd') AS dt,
  date_format(dateTime, 'HH:mm') AS hm
FROM bid
