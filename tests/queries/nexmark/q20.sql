-- Expand bid with auction
SELECT
  auction, bidder, price, channel, url, b.dateTime AS bid_dateTime, b.extra AS bid_extra,
  itemName, description, initialBid, reserve, a.dateTime AS auction_dateTime, expires, seller, category,
  a.extra AS auction_extra
FROM bid AS b JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10
