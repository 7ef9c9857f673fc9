-- source: https://warnhack.com/blog/siem-log-analysis-network-data-integration
-- asks: Neighbouring addresses: last octet of the destination differs by at most 2 from the answer, 15 s apart
-- tables: dns, conns
-- time: d=t, c=t
-- on: streams
-- oracle: spark
SELECT d.dns_id AS dns_id, c.conn_id AS conn_id,
       CAST(split(c.dst, '\\.')[3] AS INT) - CAST(split(d.answer, '\\.')[3] AS INT) AS delta
FROM dns d JOIN conns c
  ON substring_index(d.answer, '.', 3) = substring_index(c.dst, '.', 3)
 AND abs(CAST(split(c.dst, '\\.')[3] AS INT) - CAST(split(d.answer, '\\.')[3] AS INT)) <= 2
 AND c.t BETWEEN d.t - INTERVAL 15 SECONDS AND d.t + INTERVAL 15 SECONDS
