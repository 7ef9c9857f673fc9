-- source: https://support.huaweicloud.com/intl/en-us/eu-west-0-usermanual-mrs/mrs_08_00348.html
-- asks: Price per item and the paid share in percent for payments within 25 minutes
-- tables: orders, payments
-- time: o=t, p=t
-- on: streams
-- oracle: spark
SELECT o.order_id AS order_id, p.pay_id AS pay_id,
       CAST(o.amount / o.items AS DECIMAL(12, 2)) AS per_item,
       round(CAST(p.paid AS DOUBLE) / CAST(o.amount AS DOUBLE) * 100, 2) AS pct
FROM orders o JOIN payments p
  ON p.order_id = o.order_id AND p.t >= o.t AND p.t < o.t + INTERVAL 25 MINUTES
