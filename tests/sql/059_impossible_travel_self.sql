-- source: https://www.earezki.com/ai-news/2026-05-14-six-sql-patterns-i-use-to-catch-transaction-fraud/
-- asks: The same cab seen at two places too far apart for the time between (faster than 100 km/h)
-- tables: cabs
-- time: a=t, b=t
-- on: streams
-- oracle: spark
SELECT a.cab_id AS cab_id, a.ping_id AS p1, b.ping_id AS p2,
       haversine(a.lat, a.lon, b.lat, b.lon) / 1000 / (nullif(timestampdiff(SECOND, a.t, b.t), 0) / 3600.0D) AS kmh
FROM cabs a JOIN cabs b
  ON a.cab_id = b.cab_id AND b.t > a.t AND b.t <= a.t + INTERVAL 15 MINUTES
WHERE haversine(a.lat, a.lon, b.lat, b.lon) / 1000 / (nullif(timestampdiff(SECOND, a.t, b.t), 0) / 3600.0D) > 100
