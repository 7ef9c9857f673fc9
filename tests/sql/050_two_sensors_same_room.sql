-- source: https://questdb.com/glossary/time-series-join
-- asks: Pairs of different sensors of one room read within 20 seconds, difference of the temperatures
-- tables: readings
-- time: x=t, y=t
-- on: streams
-- oracle: spark
SELECT x.reading_id AS x_id, y.reading_id AS y_id, x.room AS room, abs(x.temp - y.temp) AS dtemp
FROM readings x JOIN readings y
  ON x.room = y.room AND x.sensor_id < y.sensor_id
 AND y.t BETWEEN x.t - INTERVAL 20 SECONDS AND x.t + INTERVAL 20 SECONDS
