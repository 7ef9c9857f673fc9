-- source: https://fgarofalo56.github.io/csa-inabox/learn/tutorials/stream-analytics/06-temporal-joins/
-- asks: Same sensor: temperature rises by more than two degrees within five minutes
-- tables: readings
-- time: a=t, b=t
-- on: streams
-- oracle: spark
SELECT a.sensor_id AS sensor_id, a.reading_id AS from_id, b.reading_id AS to_id, b.temp - a.temp AS jump
FROM readings a JOIN readings b
  ON a.sensor_id = b.sensor_id
 AND b.t > a.t AND b.t <= a.t + INTERVAL 5 MINUTES
 AND b.temp - a.temp > 2
