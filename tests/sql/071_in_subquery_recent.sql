-- source: https://github.com/hazelcast/hazelcast/pull/21044
-- asks: Orders whose number occurs among the payments of the next hour (correlated IN)
-- tables: orders, payments
-- time: o=t, p=t
-- on: streams
-- oracle: spark
SELECT o.order_id AS order_id, o.usr AS usr, o.t AS ordered_at
FROM orders o
WHERE o.order_id IN (SELECT p.order_id FROM payments p WHERE p.ok AND p.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR)
