-- source: https://docs.ksqldb.io/en/0.7.1-ksqldb/developer-guide/joins/join-streams-and-tables/
-- asks: Shipments and payments of one order that are less than two hours apart, either way round
-- tables: shipments, payments
-- time: s=t, p=t
-- on: streams
-- oracle: spark
SELECT s.ship_id AS ship_id, p.pay_id AS pay_id, s.order_id AS order_id,
       s.t < p.t AS shipped_before_payment
FROM shipments s INNER JOIN payments p
  ON s.order_id = p.order_id
 AND abs(unix_timestamp(s.t) - unix_timestamp(p.t)) <= 7200
