-- Hot items
SELECT auction_bids.auction, auction_bids.num
FROM (
  SELECT auction, count(*) AS num, window.start AS starttime, window.end AS endtime
  FROM bid
  GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
) AS auction_bids
JOIN (
  SELECT max(count_bids.num) AS maxn, count_bids.starttime, count_bids.endtime
  FROM (
    SELECT count(*) AS num, window.start AS starttime, window.end AS endtime
    FROM bid
    GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
  ) AS count_bids
  GROUP BY count_bids.starttime, count_bids.endtime
) AS max_bids
ON auction_bids.starttime = max_bids.starttime
  AND auction_bids.endtime = max_bids.endtime
  AND auction_bids.num >= max_bids.maxn
