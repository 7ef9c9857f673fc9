-- source: https://alibabacloud.com/help/en/flink/developer-reference/intervaljoin-statement
-- asks: Orders and their shipment within 4 hours, product in lower case and carrier trimmed
-- tables: orders, shipments
-- time: o=t, s=t
-- on: streams
-- oracle: spark
SELECT o.order_id AS id, lower(o.product) AS product_name, trim(s.carrier) AS carrier,
       CASE WHEN s.t <= o.t + INTERVAL 1 HOUR THEN 'express' WHEN s.t <= o.t + INTERVAL 2 HOURS THEN 'fast' ELSE 'normal' END AS speed
FROM orders AS o
JOIN shipments AS s
  ON o.order_id = s.order_id AND o.t BETWEEN s.t - INTERVAL '4' HOUR AND s.t
