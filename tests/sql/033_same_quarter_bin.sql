-- source: https://sites.google.com/site/hellobenchen/home/wiki/big-data/databricks/range-query-join-hint
-- asks: Orders and rides in the same quarter of an hour with equal number of items and passengers
-- tables: orders, rides
-- time: o=t, r=t
-- on: streams
-- oracle: spark
SELECT o.order_id AS order_id, r.ride_id AS ride_id, date_trunc('HOUR', o.t) AS hour
FROM orders o JOIN rides r
  ON o.items = r.passengers
 AND CAST(unix_timestamp(o.t) / 900 AS BIGINT) = CAST(unix_timestamp(r.t) / 900 AS BIGINT)
 AND minute(r.t) >= 15
