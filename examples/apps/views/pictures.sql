-- Good photos, with the photographer and the place.
SELECT photos.photo, photos.title, photos.stars, users.name AS by_whom, places.name AS place, places.city
FROM photos
JOIN users ON photos.uid = users.uid
JOIN places ON photos.place = places.place
WHERE photos.stars >= 4
