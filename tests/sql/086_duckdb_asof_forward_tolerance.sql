-- source: https://questdb.com/docs/query/sql/asof-join
-- asks: The first reading of the room after each alert, only when it comes within three minutes (tolerance)
-- tables: alerts, readings
-- time: a=t, r=t
-- on: tables
-- oracle: duckdb
SELECT a.alert_id AS alert_id, r.t AS read_at, r.temp AS temp
FROM alerts a ASOF JOIN (SELECT room, t, max(temp) AS temp FROM readings GROUP BY room, t) r
  ON a.room = r.room AND a.t <= r.t
WHERE r.t - a.t <= INTERVAL '3 minutes'
