-- source: https://www.pcreview.co.uk/threads/has-anyone-used-ms-access-to-compute-a-correlation-statistic-amou.1182018
-- asks: Correlation of the temperature of a room with its humidity up to two minutes later
-- tables: readings
-- time: a=t, b=t
-- on: tables
-- oracle: spark
SELECT a.room AS room, count(*) AS n, corr(a.temp, b.hum) AS r, covar_samp(a.temp, b.hum) AS cov
FROM readings a JOIN readings b
  ON a.room = b.room AND b.t BETWEEN a.t AND a.t + INTERVAL 2 MINUTES
WHERE a.temp IS NOT NULL AND b.hum IS NOT NULL
GROUP BY a.room
