-- source: https://bettingsidernorge.com/blog/correlating-dns-and-connection-logs
-- asks: After a client resolved a name, did it connect to the answered address within the TTL?
-- tables: dns, conns
-- time: d=t, c=t
-- on: streams
-- oracle: spark
SELECT d.dns_id AS dns_id, c.conn_id AS conn_id, rtrim('.', lower(d.query)) AS domain, d.answer AS ip, c.bytes AS bytes
FROM dns d JOIN conns c
  ON c.src = d.client AND c.dst = d.answer
 AND c.t >= d.t AND c.t <= d.t + INTERVAL 300 SECONDS
WHERE unix_micros(c.t) - unix_micros(d.t) <= d.ttl * 1000000L
