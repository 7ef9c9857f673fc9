-- source: https://clickhouse.com/docs/guides/developer/time-series-filling-gaps
-- asks: Per five-minute bucket and /24 net the sorted ports used after look-ups, and who had the most bytes
-- tables: dns, conns
-- time: d=t, c=t
-- on: tables
-- oracle: duckdb
SELECT time_bucket(INTERVAL '5 minutes', d.t) AS bucket, regexp_extract(c.dst, '^(\d+\.\d+\.\d+)\.', 1) AS net,
       list_sort(list(DISTINCT c.dport)) AS ports, sum(c.bytes)::BIGINT AS bytes, count(*) FILTER (c.bytes < 1000000) AS small
FROM dns d JOIN conns c
  ON c.src = d.client AND c.t BETWEEN d.t AND d.t + INTERVAL '45 seconds'
GROUP BY ALL
ORDER BY bucket, net
