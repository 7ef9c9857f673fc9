-- source: https://dn.org/security-analytics-correlating-dns-logs-with-endpoint-data
-- asks: Look-ups of names that look generated, with any connection of that client in the next minute
-- tables: dns, conns
-- time: d=t, c=t
-- on: streams
-- oracle: spark
SELECT d.dns_id AS dns_id, c.conn_id AS conn_id, length(split_part(d.query, '.', 1)) AS first_label,
       translate(split_part(d.query, '.', 1), '0123456789', '') AS letters
FROM dns d JOIN conns c
  ON c.src = d.client AND c.t > d.t AND c.t < d.t + INTERVAL 60 SECONDS
WHERE length(split_part(d.query, '.', 1)) >= 7
