-- source: https://rahulpedduri.github.io/2017/10/23/time-range-join.html
-- asks: Sum of the seats of all bookings that run at the time of each alert (start and end time)
-- tables: alerts, bookings
-- time: a=t, b=t0
-- on: streams
-- oracle: spark
SELECT a.alert_id AS id, a.t AS at, sum(b.seats) AS points
FROM alerts a LEFT JOIN bookings b
  ON a.room = b.room AND b.t0 <= a.t AND a.t <= b.t1
GROUP BY a.alert_id, a.t
