-- source: http://zachmoshe.com/2016/09/26/efficient-range-joins-with-spark.html
-- asks: Average temperature measured in the half hour before each severe event
-- tables: alerts, readings
-- time: e=t, m=t
-- on: streams
-- oracle: spark
SELECT e.alert_id AS eid, avg(m.temp) AS avg_temp, count(m.temp) AS measured
FROM alerts e JOIN readings m
  ON m.room = e.room
 AND unix_timestamp(e.t) - unix_timestamp(m.t) BETWEEN 0 AND 1800
WHERE e.severity >= 3
GROUP BY e.alert_id
