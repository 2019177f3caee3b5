SELECT clicks.id
FROM clicks JOIN views ON clicks.id = views.id
