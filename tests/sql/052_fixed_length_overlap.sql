-- source: https://docs.databricks.com/optimizations/range-join.html
-- asks: Alerts count 5 minutes, bookings their first 15: pairs of one room that overlap, severity as text
-- tables: alerts, bookings
-- time: a=t, b=t0
-- on: streams
-- oracle: spark
SELECT a.alert_id AS alert_id, b.booking_id AS booking_id,
       CASE a.severity WHEN 1 THEN 'info' WHEN 2 THEN 'warn' ELSE 'error' END AS level,
       nvl(a.msg, '(none)') AS msg
FROM alerts a JOIN bookings b
  ON b.room = a.room AND a.t < b.t0 + INTERVAL 15 MINUTES AND b.t0 < a.t + INTERVAL 5 MINUTES
