-- source: https://docs.confluent.io/platform/8.4/ksqldb/developer-guide/joins/join-streams-and-tables.html
-- asks: Right join: each shipment with the order if it was placed in the two hours before
-- tables: orders, shipments
-- time: o=t, s=t
-- on: streams
-- oracle: spark
SELECT s.ship_id AS ship_id, initcap(trim(s.carrier)) AS carrier, o.order_id AS order_id, o.product AS product
FROM orders o RIGHT JOIN shipments s
  ON o.order_id = s.order_id AND o.t >= s.t - INTERVAL 2 HOURS AND o.t <= s.t
