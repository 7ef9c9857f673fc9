-- source: https://tonyandrews.blogspot.com/2010/06
-- asks: Owners who are booked in two rooms at once, a missing end means only the start instant
-- tables: bookings
-- time: a=t0, b=t0
-- on: tables
-- oracle: spark
SELECT a.owner AS owner, a.booking_id AS a_id, b.booking_id AS b_id
FROM bookings a JOIN bookings b ON a.owner = b.owner AND a.booking_id < b.booking_id AND a.room <> b.room
WHERE NOT (nvl(a.t1, a.t0) < b.t0 OR a.t0 > nvl(b.t1, b.t0))
