-- What is on offer within 200 m of somebody.
SELECT
    offers.offer,
    offers.shop,
    offers.coupon
FROM a.location AS here
JOIN offers
    ON distance(here.lat, here.lng, offers.lat, offers.lng) < 200
