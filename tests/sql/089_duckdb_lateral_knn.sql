-- source: https://devtechtools.org/en/blog/postgresql-lateral-joins-time-series-top-n-queries
-- asks: Two nearest free cabs per ride by LATERAL ... ORDER BY ... LIMIT 2 within 15 minutes
-- tables: rides, cabs
-- time: r=t, c=t
-- on: tables
-- oracle: duckdb
SELECT r.ride_id AS ride_id, n.ping_id AS ping_id, n.d AS d
FROM rides r, LATERAL (
  SELECT c.ping_id AS ping_id, abs(c.lon - r.lon) + abs(c.lat - r.lat) AS d
  FROM cabs c
  WHERE c.free AND c.t BETWEEN r.t - INTERVAL 15 MINUTES AND r.t
  ORDER BY abs(c.lon - r.lon) + abs(c.lat - r.lat), c.ping_id
  LIMIT 2) n
WHERE r.passengers <= 4
