SELECT p.born, count(*) AS visits, sum(v.minutes) AS minutes
FROM visits v JOIN patients p ON v.patient = p.id
GROUP BY p.born
