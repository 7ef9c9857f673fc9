-- source: https://learn.microsoft.com./en-us/stream-analytics-query/join-azure-stream-analytics
-- asks: Orders for which no successful payment arrives within 45 minutes
-- tables: orders, payments
-- time: o=t, p=t
-- on: streams
-- oracle: spark
SELECT o.order_id AS order_id, o.amount AS amount, o.t AS ordered_at
FROM orders o LEFT JOIN payments p
  ON p.order_id = o.order_id AND p.ok AND p.t BETWEEN o.t AND o.t + INTERVAL '45' MINUTE
WHERE p.pay_id IS NULL
