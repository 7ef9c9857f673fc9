-- source: https://docs.wherobots.com/reference/wherobots-db/geometry-data/optimizer
-- asks: Free cabs within 5 minutes and about 2 km (degrees, Manhattan distance) of a ride request
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.cab_id AS cab_id, c.ping_id AS ping_id, abs(r.lon - c.lon) + abs(r.lat - c.lat) AS dist
FROM rides r JOIN cabs c
  ON c.t BETWEEN r.t - INTERVAL '5 minutes' AND r.t + INTERVAL '5 minutes'
 AND abs(r.lon - c.lon) + abs(r.lat - c.lat) <= 0.03
WHERE c.free
