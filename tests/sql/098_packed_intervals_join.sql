-- source: https://www.crtimmonsinc.com/2018/05/04/packing-intervals/
-- asks: Merge overlapping bookings of a room first, then average the readings inside each merged block
-- tables: bookings, readings
-- time: k=from_t, r=t
-- on: tables
-- oracle: spark
WITH b AS (
  SELECT room, t0, coalesce(t1, t0 + INTERVAL 30 MINUTES) AS t1, booking_id FROM bookings
), m AS (
  SELECT *, CASE WHEN t0 <= max(t1) OVER (PARTITION BY room ORDER BY t0, t1, booking_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 0 ELSE 1 END AS st FROM b
), p AS (
  SELECT *, sum(st) OVER (PARTITION BY room ORDER BY t0, t1, booking_id ROWS UNBOUNDED PRECEDING) AS grp FROM m
), packed AS (
  SELECT room, grp, min(t0) AS from_t, max(t1) AS to_t, count(*) AS parts FROM p GROUP BY room, grp
)
SELECT k.room AS room, k.from_t AS from_t, k.to_t AS to_t, k.parts AS parts, count(r.reading_id) AS n, avg(r.temp) AS mean_temp
FROM packed k LEFT JOIN readings r ON r.room = k.room AND r.t >= k.from_t AND r.t < k.to_t
GROUP BY k.room, k.from_t, k.to_t, k.parts
