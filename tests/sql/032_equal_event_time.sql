-- source: https://github.com/feldera/feldera/issues/2846
-- asks: Rows of two streams with exactly the same event time, kept on the left side even if there is none
-- tables: readings, alerts
-- time: t1=t, t2=t
-- on: streams
-- oracle: spark
SELECT t1.reading_id AS reading_id, t1.t AS ts, t2.alert_id AS alert_id
FROM readings t1 LEFT JOIN alerts t2 ON t1.t = t2.t
WHERE t1.sensor_id <= 4
