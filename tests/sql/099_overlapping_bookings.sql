-- source: https://sqlcmd.net/commands/date-range-overlap
-- asks: Double bookings: pairs of bookings of one room that overlap, with the minutes of overlap
-- tables: bookings
-- time: a=t0, b=t0
-- on: tables
-- oracle: spark
SELECT a.booking_id AS booking_a, b.booking_id AS booking_b, a.room AS room,
       timestampdiff(MINUTE, greatest(a.t0, b.t0), least(a.t1, b.t1)) AS overlap_min
FROM bookings a JOIN bookings b ON a.room = b.room AND a.booking_id < b.booking_id
WHERE a.t0 < b.t1 AND b.t0 < a.t1
ORDER BY a.booking_id, b.booking_id
