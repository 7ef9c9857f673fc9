-- source: https://data-foundation.rockerbox.com/warehousing/analytics-customize-attribution-windows
-- asks: Time-decay attribution with a half-life of one hour, weights normalised per order
-- tables: orders, clicks
-- time: o=t, c=t
-- on: tables
-- oracle: spark
WITH w AS (
  SELECT o.order_id AS order_id, c.click_id AS click_id,
         power(2.0D, -(unix_timestamp(o.t) - unix_timestamp(c.t)) / 3600.0D) AS weight
  FROM orders o JOIN clicks c ON c.usr = o.usr AND c.t BETWEEN o.t - INTERVAL 4 HOURS AND o.t
)
SELECT order_id, click_id, weight / sum(weight) OVER (PARTITION BY order_id) AS share FROM w
