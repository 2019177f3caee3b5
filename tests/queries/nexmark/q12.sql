-- Processing time windows
SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime
FROM bid
GROUP BY bidder, window(current_timestamp(), '10 seconds')
