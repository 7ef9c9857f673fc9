-- source: http://dba.stackexchange.com/questions/14661/do-you-know-an-easy-way-to-generate-one-record-for-each-hour-of-the-past-12-hour?answertab=active
-- asks: Per hour of ordering: orders and how many were shipped within 90 minutes (hours with none count zero)
-- tables: orders, shipments
-- time: o=t, s=t
-- on: streams
-- oracle: spark
SELECT date_trunc('HOUR', o.t) AS hour, count(DISTINCT o.order_id) AS orders, count(s.ship_id) AS shipped
FROM orders o LEFT JOIN shipments s
  ON s.order_id = o.order_id AND s.t BETWEEN o.t AND o.t + INTERVAL '01:30' HOUR TO MINUTE
GROUP BY date_trunc('HOUR', o.t)
