-- source: https://qosf.com/sessionization.html
-- asks: Islands of consecutive hot readings per room inside bookings of any kind
-- tables: readings, bookings
-- time: r=t, b=t0
-- on: tables
-- oracle: spark
WITH j AS (
  SELECT DISTINCT r.room AS room, r.reading_id AS reading_id, r.t AS t, r.temp > 21 AS hot
  FROM readings r JOIN bookings b ON b.room = r.room AND r.t >= b.t0 AND r.t < b.t1
  WHERE r.temp IS NOT NULL
), g AS (
  SELECT *, row_number() OVER (PARTITION BY room ORDER BY t, reading_id)
          - row_number() OVER (PARTITION BY room, hot ORDER BY t, reading_id) AS grp FROM j
)
SELECT room, min(t) AS from_t, max(t) AS to_t, count(*) AS n
FROM g WHERE hot GROUP BY room, grp HAVING count(*) > 1
