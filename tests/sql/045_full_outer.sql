-- source: https://docs.confluent.io/platform/current/ksqldb/developer-guide/joins/overview.html
-- asks: Full outer join of payments and shipments of one order within an hour of each other
-- tables: payments, shipments
-- time: p=t, s=t
-- on: streams
-- oracle: spark
SELECT coalesce(p.order_id, s.order_id) AS order_id, p.pay_id AS pay_id, s.ship_id AS ship_id
FROM payments p FULL OUTER JOIN shipments s
  ON p.order_id = s.order_id
 AND s.t BETWEEN p.t - INTERVAL 1 HOUR AND p.t + INTERVAL 1 HOUR
