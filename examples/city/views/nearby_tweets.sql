-- English messages with a position in the centre of London.
SELECT tweets.tid, tweets.uid, tweets.body, curloc.lat, curloc.lng
FROM tweets
JOIN curloc ON tweets.tid = curloc.tid
WHERE tweets.lang = 'en'
  AND curloc.lat BETWEEN 51.4 AND 51.6
  AND curloc.lng BETWEEN -0.3 AND 0.1
