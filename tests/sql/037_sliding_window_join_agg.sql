-- source: https://docs.risingwave.com/processing/sql/time-windows
-- asks: Sliding 20 minute windows every 10: number of candidate pairs and mean distance per district
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT window.start AS win_start, district, count(*) AS pairs, avg(dist) AS mean_dist
FROM (SELECT window(r.t, '20 minutes', '10 minutes') AS window, r.district AS district,
             abs(r.lon - c.lon) + abs(r.lat - c.lat) AS dist
      FROM rides r JOIN cabs c
        ON c.t BETWEEN r.t - INTERVAL 3 MINUTES AND r.t + INTERVAL 3 MINUTES
       AND abs(r.lon - c.lon) + abs(r.lat - c.lat) < 0.05)
GROUP BY window.start, district
HAVING count(*) >= 2
