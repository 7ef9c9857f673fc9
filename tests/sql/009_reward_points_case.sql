-- source: https://livebook.manning.com/learn/concepts/ksqldb--tool/kafka-streams-in-action-second-edition
-- asks: Reward points by order total when a ride is requested within 30 minutes of the order and the price is similar
-- tables: orders, rides
-- time: o=t, r=t
-- on: streams
-- oracle: spark
SELECT o.order_id AS order_id, r.ride_id AS ride_id,
       CASE WHEN o.amount >= 200 THEN 100 WHEN o.amount >= 50 THEN 50 ELSE 10 END AS points
FROM orders o JOIN rides r
  ON r.t BETWEEN o.t AND o.t + INTERVAL 30 MINUTES
 AND abs(o.amount - r.fare) < 5.00
