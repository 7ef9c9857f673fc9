-- source: https://www.tigerdata.com/docs/api/latest/hyperfunctions/gapfilling/time_bucket_gapfill
-- asks: Mean temperature per room and five minutes with gaps filled by the last known value
-- tables: readings
-- time: s=b, m=b
-- on: tables
-- oracle: spark
WITH spine AS (
  SELECT room, explode(sequence(TIMESTAMP '2024-05-06 08:00:00', TIMESTAMP '2024-05-06 09:55:00', INTERVAL 5 MINUTES)) AS b
  FROM (SELECT DISTINCT room FROM readings)
), m AS (
  SELECT room, window(t, '5 minutes').start AS b, avg(temp) AS temp FROM readings GROUP BY room, window(t, '5 minutes').start
)
SELECT s.room AS room, s.b AS bucket, m.temp AS temp,
       last_value(m.temp, true) OVER (PARTITION BY s.room ORDER BY s.b ROWS UNBOUNDED PRECEDING) AS locf
FROM spine s LEFT JOIN m ON m.room = s.room AND m.b = s.b
