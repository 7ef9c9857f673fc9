-- source: https://nl.sqldat.com/ols/ebl/1006060007.html
-- asks: Reading nearest in time (either direction, at most 10 minutes) to each alert, all ties kept
-- tables: alerts, readings
-- time: a=t, r=t
-- on: tables
-- oracle: spark
SELECT x.alert_id AS alert_id, r.reading_id AS reading_id, x.min_abs_diff AS secs
FROM (SELECT a.alert_id, a.room, a.t, min(abs(unix_timestamp(a.t) - unix_timestamp(r.t))) AS min_abs_diff
      FROM alerts a JOIN readings r ON a.room = r.room
       AND r.t BETWEEN a.t - INTERVAL 10 MINUTES AND a.t + INTERVAL 10 MINUTES
      GROUP BY a.alert_id, a.room, a.t) x
JOIN readings r ON r.room = x.room AND abs(unix_timestamp(x.t) - unix_timestamp(r.t)) = x.min_abs_diff
