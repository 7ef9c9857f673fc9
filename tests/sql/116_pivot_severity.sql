-- source: https://learn.microsoft.com/fi-fi/azure/stream-analytics/stream-analytics-stream-analytics-query-patterns
-- asks: Per room the number of alerts during bookings, one column per severity (PIVOT)
-- tables: alerts, bookings
-- time: a=t, b=t0
-- on: tables
-- oracle: spark
SELECT * FROM (
  SELECT a.room AS room, a.severity AS severity, a.alert_id AS alert_id
  FROM alerts a JOIN bookings b ON b.room = a.room AND a.t >= b.t0 AND a.t < b.t1
) PIVOT (count(DISTINCT alert_id) FOR severity IN (1 AS s1, 2 AS s2, 3 AS s3, 4 AS s4))
