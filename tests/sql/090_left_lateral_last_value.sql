-- source: https://remontka.com/postgresql-lateral-join
-- asks: Temperature as of each alert (at most half an hour old) with a lateral subquery, null if nothing was read
-- tables: alerts, readings
-- time: a=t, r=t
-- on: tables
-- oracle: spark
SELECT a.alert_id AS alert_id, a.room AS room, h.temp AS temp, h.hum AS hum
FROM alerts a LEFT JOIN LATERAL (
  SELECT r.temp, r.hum FROM readings r
  WHERE r.room = a.room AND r.t <= a.t AND r.t > a.t - INTERVAL 30 MINUTES
  ORDER BY r.t DESC, r.reading_id DESC LIMIT 1) h ON true
