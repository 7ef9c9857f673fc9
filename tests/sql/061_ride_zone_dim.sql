-- source: https://docs.wherobots.com/latest/references/wherobotsdb/vector-data/Optimizer/
-- asks: Rides and cabs in the same zone (box) of the city within six minutes, with the surcharge of the zone
-- tables: rides, cabs, zones
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.ping_id AS ping_id, z.name AS zone, coalesce(r.fare, 0) + z.surcharge AS price
FROM rides r
JOIN zones z ON r.lon >= z.lon0 AND r.lon < z.lon1 AND r.lat >= z.lat0 AND r.lat < z.lat1
JOIN cabs c ON c.lon >= z.lon0 AND c.lon < z.lon1 AND c.lat >= z.lat0 AND c.lat < z.lat1
 AND c.t BETWEEN r.t - INTERVAL 6 MINUTES AND r.t + INTERVAL 6 MINUTES
