-- source: https://www.timescale.com/blog/select-the-most-recent-record-of-many-items-with-postgresql/
-- asks: Last temperature before each alert by a correlated scalar aggregate (struct breaks ties)
-- tables: alerts, readings
-- time: a=t, r=t
-- on: tables
-- oracle: spark
SELECT a.alert_id AS alert_id, a.room AS room,
       max_by(r.temp, struct(r.t, r.reading_id)) AS last_temp, max(r.t) AS last_seen
FROM alerts a JOIN readings r ON r.room = a.room AND r.t <= a.t AND r.t > a.t - INTERVAL 20 MINUTES AND r.temp IS NOT NULL
GROUP BY a.alert_id, a.room
