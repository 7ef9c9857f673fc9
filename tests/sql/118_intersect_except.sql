-- source: https://dev.to/markadel/a-practical-example-of-using-sql-self-joins-ndd
-- asks: Orders paid within an hour but not shipped within two hours (EXCEPT of two joins)
-- tables: orders, payments, shipments
-- time: o=t, p=t, s=t
-- on: tables
-- oracle: spark
SELECT o.order_id AS order_id FROM orders o JOIN payments p ON p.order_id = o.order_id AND p.ok AND p.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR
EXCEPT
SELECT o.order_id FROM orders o JOIN shipments s ON s.order_id = o.order_id AND s.t BETWEEN o.t AND o.t + INTERVAL 2 HOURS
