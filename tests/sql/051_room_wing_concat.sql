-- source: https://docs.databricks.com/optimizations/range-join.html
-- asks: Match on the wing of the room only (prefix before the dash), within one minute
-- tables: readings, alerts
-- time: r=t, a=t
-- on: streams
-- oracle: spark
SELECT r.reading_id AS reading_id, a.alert_id AS alert_id,
       concat(split(r.room, '-')[0], ':', a.severity) AS tag
FROM readings r JOIN alerts a
  ON split(r.room, '-')[0] = split(a.room, '-')[0] AND r.room <> a.room
 AND r.t BETWEEN a.t - INTERVAL 1 MINUTE AND a.t
