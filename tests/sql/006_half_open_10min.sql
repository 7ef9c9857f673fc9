-- source: http://bubuko.com/infodetail-3816670.html
-- asks: Hot readings at most ten minutes before an alert in the same room (half-open bound)
-- tables: alerts, readings
-- time: a=t, r=t
-- on: streams
-- oracle: spark
SELECT a.alert_id AS alert_id, r.reading_id AS reading_id, round(r.temp, 1) AS temp, a.severity AS severity
FROM alerts a JOIN readings r ON a.room = r.room
 AND a.t >= r.t AND a.t < r.t + INTERVAL '10' MINUTE
WHERE r.temp > 22.5
