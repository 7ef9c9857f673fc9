-- source: http://zachmoshe.com/2016/09/26/efficient-range-joins-with-spark.html
-- asks: No key at all: very large transfers within 30 seconds of a severe alert anywhere, in megabytes
-- tables: alerts, conns
-- time: a=t, c=t
-- on: streams
-- oracle: spark
SELECT a.alert_id AS alert_id, c.conn_id AS conn_id, round(c.bytes / 1048576, 3) AS mib,
       format_number(c.bytes, 0) AS pretty, a.severity * 10 + c.dport % 10 AS score
FROM alerts a JOIN conns c
  ON c.t BETWEEN a.t - INTERVAL 30 SECONDS AND a.t + INTERVAL 30 SECONDS
WHERE a.severity = 4 AND c.bytes > 1500000
