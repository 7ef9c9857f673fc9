-- source: https://www.debugease.com/oracle/4024702.html
-- asks: One list of events explaining alerts: hot readings within 3 minutes, and bookings that start within 3 minutes
-- tables: alerts, readings, bookings
-- time: a=t, r=t, b=t0
-- on: streams
-- oracle: spark
SELECT a.alert_id AS alert_id, 'reading' AS kind, r.reading_id AS ref_id, r.t AS at
FROM alerts a JOIN readings r ON r.room = a.room AND r.t BETWEEN a.t - INTERVAL 3 MINUTES AND a.t AND r.temp > 20
UNION ALL
SELECT a.alert_id, 'booking', b.booking_id, b.t0
FROM alerts a JOIN bookings b ON b.room = a.room AND b.t0 BETWEEN a.t - INTERVAL 3 MINUTES AND a.t
