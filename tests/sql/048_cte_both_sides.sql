-- source: https://docs.azure.cn/en-us/stream-analytics/stream-analytics-stream-analytics-query-patterns
-- asks: CTEs that clean both sides (temperature in the alert text as a number), then the join in time
-- tables: readings, alerts
-- time: h=t, p=t
-- on: streams
-- oracle: spark
WITH hot AS (
  SELECT reading_id, room, temp, t FROM readings WHERE temp IS NOT NULL AND temp >= 22
), parsed AS (
  SELECT alert_id, room, t, CAST(regexp_extract(msg, '([0-9]+)C', 1) AS INT) AS said
  FROM alerts WHERE msg RLIKE '[0-9]+C$'
)
SELECT h.reading_id AS reading_id, p.alert_id AS alert_id, p.said - h.temp AS off_by
FROM hot h JOIN parsed p
  ON h.room = p.room AND h.t BETWEEN p.t - INTERVAL 15 MINUTES AND p.t + INTERVAL 5 MINUTES
