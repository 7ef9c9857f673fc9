-- source: https://support.huaweicloud.com/intl/en-us/sqlref-flink-dli/dli_08_15074.html
-- asks: Alerts for which the room also sent some reading in the same ten-minute window (semi join)
-- tables: alerts, readings
-- time: a=t, r=t
-- on: streams
-- oracle: spark
SELECT a.alert_id AS alert_id, a.room AS room, a.severity AS severity
FROM alerts a
WHERE EXISTS (SELECT 1 FROM readings r
              WHERE r.room = a.room
                AND floor(unix_timestamp(r.t) / 600) = floor(unix_timestamp(a.t) / 600))
