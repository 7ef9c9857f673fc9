-- source: https://dn.org/security-analytics-correlating-dns-logs-with-endpoint-data
-- asks: Connections to the same /24 network as a recent DNS answer, by address prefix
-- tables: dns, conns
-- time: d=t, c=t
-- on: streams
-- oracle: spark
SELECT d.dns_id AS dns_id, c.conn_id AS conn_id, substring_index(c.dst, '.', 3) || '.0/24' AS net
FROM dns d JOIN conns c
  ON substring_index(c.dst, '.', 3) = substring_index(d.answer, '.', 3)
 AND c.t BETWEEN d.t AND d.t + INTERVAL 20 SECONDS
WHERE d.query ILIKE 'api%' OR d.query RLIKE '^[a-z0-9]{8}\\.'
