-- source: https://sites.google.com/site/hellobenchen/home/wiki/big-data/databricks/range-query-join-hint
-- asks: Same grid cell (rounded coordinates) and same ten-minute bin: cabs and rides per cell
-- tables: rides, cabs
-- time: rides=t, cabs=t
-- on: streams
-- oracle: spark
SELECT r.cell AS cell, r.bin AS bin, count(DISTINCT r.ride_id) AS rides, count(DISTINCT c.cab_id) AS cabs
FROM (SELECT ride_id, concat_ws('/', floor(lon * 20), floor(lat * 20)) AS cell, unix_timestamp(t) DIV 600 AS bin FROM rides) r
JOIN (SELECT cab_id, concat_ws('/', floor(lon * 20), floor(lat * 20)) AS cell, unix_timestamp(t) DIV 600 AS bin FROM cabs) c
  ON r.cell = c.cell AND r.bin = c.bin
GROUP BY r.cell, r.bin
