-- source: https://docs.ksqldb.io/en/0.13.0-ksqldb/developer-guide/joins/join-streams-and-tables
-- asks: Orders paid within an hour and shipped within two hours of the payment
-- tables: orders, payments, shipments
-- time: o=t, p=t, s=t
-- on: streams
-- oracle: spark
SELECT o.order_id AS order_id, o.product AS product, p.pay_id AS pay_id, s.ship_id AS ship_id, s.t AS shipped
FROM orders o
JOIN payments p ON p.order_id = o.order_id AND p.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR
JOIN shipments s ON s.order_id = o.order_id AND s.t BETWEEN p.t AND p.t + INTERVAL 2 HOURS
