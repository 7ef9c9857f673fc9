-- source: https://www.hintstoday.com/all-major-pyspark-data-structures-and-types-discussed/3
-- asks: For every alert the sorted list of temperatures measured in the five minutes before it
-- tables: alerts, readings
-- time: a=t, r=t
-- on: streams
-- oracle: spark
SELECT a.alert_id AS alert_id, sort_array(collect_list(r.temp)) AS temps, size(collect_set(r.sensor_id)) AS sensors
FROM alerts a LEFT JOIN readings r
  ON r.room = a.room AND r.t BETWEEN a.t - INTERVAL 5 MINUTES AND a.t
GROUP BY a.alert_id
