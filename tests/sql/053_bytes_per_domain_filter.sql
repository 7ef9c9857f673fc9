-- source: https://bettingsidernorge.com/blog/correlating-dns-and-connection-logs
-- asks: Bytes sent per domain and ten minutes, in total and for port 443 only (FILTER)
-- tables: dns, conns
-- time: d=t, c=t
-- on: streams
-- oracle: spark
SELECT window(d.t, '10 minutes').start AS win, lower(d.query) AS domain, count(*) AS n,
       sum(c.bytes) AS bytes, sum(c.bytes) FILTER (WHERE c.dport = 443) AS tls_bytes,
       count(*) FILTER (WHERE c.bytes > 1000000) AS big
FROM dns d JOIN conns c
  ON c.src = d.client AND c.dst = d.answer AND c.t BETWEEN d.t AND d.t + INTERVAL 2 MINUTES
GROUP BY window(d.t, '10 minutes'), lower(d.query)
