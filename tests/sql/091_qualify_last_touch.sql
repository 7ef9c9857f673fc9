-- source: https://naildd.com/blog/how-to-calculate-first-touch-attribution-in-sql
-- asks: Last-touch attribution with QUALIFY: latest click within three hours before the order
-- tables: orders, clicks
-- time: o=t, c=t
-- on: tables
-- oracle: spark
SELECT o.order_id AS order_id, o.amount AS amount, c.click_id AS click_id, c.ad_id AS ad_id
FROM orders o JOIN clicks c ON c.usr = o.usr AND c.t BETWEEN o.t - INTERVAL 3 HOURS AND o.t
QUALIFY row_number() OVER (PARTITION BY o.order_id ORDER BY c.t DESC, c.click_id DESC) = 1
