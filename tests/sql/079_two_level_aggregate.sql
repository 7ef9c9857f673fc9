-- source: https://docs.confluent.io/cloud/current/flink/reference/queries/window-tvf.md
-- asks: Windowed means of the readings joined with windowed counts of alerts of the same room and window
-- tables: readings, alerts
-- time: readings=t, alerts=t
-- on: streams
-- oracle: spark
SELECT r.room AS room, r.w.start AS w, r.mean_temp AS mean_temp, a.n AS alerts
FROM (SELECT room, window(t, '10 minutes') AS w, avg(temp) AS mean_temp FROM readings GROUP BY room, window(t, '10 minutes')) r
JOIN (SELECT room, window(t, '10 minutes') AS w, count(*) AS n FROM alerts GROUP BY room, window(t, '10 minutes')) a
  ON r.room = a.room AND r.w = a.w
WHERE a.n > 1 OR r.mean_temp > 21
