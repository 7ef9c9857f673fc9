-- source: https://docs.wherobots.com/reference/wherobots-db/geometry-data/nearest-neighbour-searching
-- asks: The three nearest cabs of every ride among the pings of the last ten minutes
-- tables: rides, cabs
-- time: r=t, c=t
-- on: tables
-- oracle: spark
WITH cand AS (
  SELECT r.ride_id AS ride_id, c.ping_id AS ping_id, c.cab_id AS cab_id,
         haversine(r.lat, r.lon, c.lat, c.lon) AS m
  FROM rides r JOIN cabs c ON c.t BETWEEN r.t - INTERVAL 10 MINUTES AND r.t
)
SELECT ride_id, cab_id, m, k
FROM (SELECT *, row_number() OVER (PARTITION BY ride_id ORDER BY m, ping_id) AS k FROM cand)
WHERE k <= 3
