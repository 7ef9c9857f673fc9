-- source: https://docs.confluent.io/cloud/current/flink/reference/queries/window-tvf.md
-- asks: Subqueries that filter and rename on both sides before the interval join
-- tables: orders, shipments
-- time: big=placed, late=sent
-- on: streams
-- oracle: spark
SELECT big.id AS id, late.ship AS ship, big.eur - 100 AS above, late.kg AS kg
FROM (SELECT order_id AS id, amount AS eur, t AS placed FROM orders WHERE amount > 100) big
JOIN (SELECT ship_id AS ship, order_id AS oid, round(weight, 1) AS kg, t AS sent FROM shipments WHERE weight IS NOT NULL) late
  ON big.id = late.oid AND late.sent > big.placed + INTERVAL 1 HOUR AND late.sent <= big.placed + INTERVAL 6 HOURS
