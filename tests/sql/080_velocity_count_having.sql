-- source: https://devdigest.org/articles/6-sql-patterns-to-catch-transaction-fraud-in-any-system
-- asks: Connections with at least two further ones of the same source in the five minutes before (velocity by self join)
-- tables: conns
-- time: x=t, y=t
-- on: streams
-- oracle: spark
SELECT x.conn_id AS conn_id, x.src AS src, count(*) AS in_last_5min, count(DISTINCT y.dst) AS targets, min(y.t) AS since
FROM conns x JOIN conns y
  ON y.src = x.src AND y.t BETWEEN x.t - INTERVAL 5 MINUTES AND x.t
GROUP BY x.conn_id, x.src
HAVING count(*) >= 3
