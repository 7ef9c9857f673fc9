-- source: https://docs.databricks.com/optimizations/range-join.html
-- asks: Readings taken while a booking was running, open ends count as one hour
-- tables: readings, bookings
-- time: r=t, b=t0
-- on: streams
-- oracle: spark
SELECT r.reading_id AS reading_id, b.booking_id AS booking_id, b.owner AS owner
FROM readings r JOIN bookings b
  ON r.t >= b.t0 AND r.t < coalesce(b.t1, b.t0 + INTERVAL 1 HOUR)
 AND r.room = b.room
WHERE b.seats > 17
