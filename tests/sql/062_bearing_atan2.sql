-- source: https://docs.wherobots.com/reference/wherobots-db/geometry-data/overview
-- asks: Direction (0-360 degrees) from the rider to each near cab of the last five minutes
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.ping_id AS ping_id,
       pmod(CAST(degrees(atan2(c.lon - r.lon, c.lat - r.lat)) AS DECIMAL(9, 3)), 360) AS bearing
FROM rides r JOIN cabs c
  ON c.t BETWEEN r.t - INTERVAL 5 MINUTES AND r.t
 AND sqrt(pow(c.lon - r.lon, 2) + pow(c.lat - r.lat, 2)) < 0.02
