-- source: https://docs.databricks.com/pt/optimizations/range-join.html
-- asks: The twenty closest pairs of request and free cab within five minutes
-- tables: rides, cabs
-- time: r=t, c=t
-- on: tables
-- oracle: spark
SELECT r.ride_id AS ride_id, c.ping_id AS ping_id, sqrt(pow(r.lon - c.lon, 2) + pow(r.lat - c.lat, 2)) AS d
FROM rides r JOIN cabs c ON c.free AND abs(timestampdiff(SECOND, r.t, c.t)) <= 300
ORDER BY d, ride_id, ping_id
LIMIT 20
