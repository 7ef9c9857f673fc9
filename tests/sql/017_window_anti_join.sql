-- source: https://github.com/apache/flink/pull/16997/files
-- asks: Alerts with no warm reading of that room in the same 5 minute window (anti join)
-- tables: alerts, readings
-- time: alerts=t, readings=t
-- on: streams
-- oracle: spark
SELECT a.alert_id AS alert_id, a.room AS room, date_format(a.t, 'HH:mm:ss') AS at
FROM (SELECT *, window(t, '5 minutes') AS w FROM alerts) a
LEFT ANTI JOIN (SELECT room, window(t, '5 minutes') AS w FROM readings WHERE temp > 21) r
  ON a.room = r.room AND a.w = r.w
