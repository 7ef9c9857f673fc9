-- source: https://devdigest.org/articles/6-sql-patterns-to-catch-transaction-fraud-in-any-system
-- asks: Cab pings within 2000 metres of a request, in the quarter hour before it, in whole metres
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.cab_id AS cab_id, c.ping_id AS ping_id,
       CAST(floor(haversine(r.lat, r.lon, c.lat, c.lon)) AS INT) AS meters
FROM rides r JOIN cabs c
  ON haversine(r.lat, r.lon, c.lat, c.lon) <= 2000
 AND c.t > r.t - INTERVAL 15 MINUTES AND c.t <= r.t
WHERE c.seats >= r.passengers
