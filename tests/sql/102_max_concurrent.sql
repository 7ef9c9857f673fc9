-- source: http://sqlmag.com/print/t-sql/intervals-and-counts-part-3
-- asks: Maximum of concurrently running bookings per room, by events +1 / -1 and a running sum
-- tables: bookings
-- time: bookings=t0
-- on: tables
-- oracle: spark
WITH e AS (
  SELECT room, t0 AS ts, 1 AS delta FROM bookings WHERE t1 IS NOT NULL
  UNION ALL
  SELECT room, t1, -1 FROM bookings WHERE t1 IS NOT NULL
), s AS (
  SELECT room, ts, sum(sum(delta)) OVER (PARTITION BY room ORDER BY ts) AS running FROM e GROUP BY room, ts
)
SELECT room, max(running) AS max_running FROM s GROUP BY room
