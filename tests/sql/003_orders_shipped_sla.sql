-- source: https://github.com/0xqq/flink-sql-cookbook/blob/master/recipes/15/15_interval_joins.md
-- asks: Orders that were shipped inside the agreed service level (here 3 hours)
-- tables: orders, shipments
-- time: o=t, s=t
-- on: streams
-- oracle: spark
SELECT o.*, s.ship_id AS ship_id, s.t AS shipped_at
FROM orders o, shipments s
WHERE o.order_id = s.order_id
  AND o.t BETWEEN s.t - INTERVAL '3' HOUR AND s.t
