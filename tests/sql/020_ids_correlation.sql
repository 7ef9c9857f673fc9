-- source: http://infocenter.sybase.com/help/topic/com.sybase.infocenter.dc01026.0400/doc/html/asc1252677298033.html
-- asks: Security correlation: suspicious look-ups and connections of the same source address within 30 seconds of each other
-- tables: dns, conns
-- time: d=t, c=t
-- on: streams
-- oracle: spark
SELECT c.src AS source_ip, d.query AS attack_kind, c.dport AS port, d.dns_id AS dns_id, c.conn_id AS conn_id
FROM dns d JOIN conns c
  ON d.client = c.src
 AND c.t BETWEEN d.t - INTERVAL 30 SECONDS AND d.t + INTERVAL 30 SECONDS
WHERE d.query LIKE '%.test' AND c.dport IN (22, 443, 8443)
