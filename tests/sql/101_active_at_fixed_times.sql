-- source: http://www.itprotoday.com/t-sql/intervals-and-counts-part-4
-- asks: Number of running bookings and their seats at the beginning of every ten minutes, zero included
-- tables: bookings
-- time: g=ts, b=t0
-- on: tables
-- oracle: spark
WITH g AS (
  SELECT explode(sequence(TIMESTAMP '2024-05-06 08:00:00', TIMESTAMP '2024-05-06 11:00:00', INTERVAL 10 MINUTES)) AS ts
)
SELECT g.ts AS ts, count(b.booking_id) AS running, coalesce(sum(b.seats), 0) AS seats
FROM g LEFT JOIN bookings b ON b.t0 <= g.ts AND g.ts < b.t1
GROUP BY g.ts
ORDER BY g.ts
