-- source: https://anriku.com/en/patterns/deduplication-cooldowns-and-expiry-in-operational-alerting
-- asks: Debounced alerts (none in the same room in the 15 minutes before) with the mean temperature around them
-- tables: alerts, readings
-- time: a=t, r=t
-- on: tables
-- oracle: spark
SELECT a.alert_id AS alert_id, a.room AS room, a.severity AS severity,
       (SELECT avg(r.temp) FROM readings r WHERE r.room = a.room AND r.t BETWEEN a.t - INTERVAL 8 MINUTES AND a.t + INTERVAL 8 MINUTES) AS mean_temp
FROM alerts a
WHERE NOT EXISTS (SELECT 1 FROM alerts p WHERE p.room = a.room AND p.t < a.t AND p.t >= a.t - INTERVAL 15 MINUTES)
ORDER BY a.alert_id
