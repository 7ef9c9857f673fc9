-- source: https://www.codegenes.net/blog/calculate-the-time-difference-between-of-two-rows
-- asks: Seconds between successive connections that followed a look-up, per client
-- tables: dns, conns
-- time: d=t, c=t
-- on: tables
-- oracle: spark
SELECT src, conn_id, t,
       (unix_micros(t) - unix_micros(lag(t) OVER (PARTITION BY src ORDER BY t, conn_id))) / 1000000.0D AS gap_s
FROM (SELECT DISTINCT c.src AS src, c.conn_id AS conn_id, c.t AS t
      FROM dns d JOIN conns c ON c.src = d.client AND c.dst = d.answer AND c.t BETWEEN d.t AND d.t + INTERVAL 90 SECONDS)
ORDER BY src, t, conn_id
