-- source: https://support.huaweicloud.com/eu/productdesc-mrs/mrs_08_00348.html
-- asks: Heavy shipments of one SKU family within five hours: family code, promised days, weekday
-- tables: orders, shipments
-- time: o=t, s=t
-- on: streams
-- oracle: spark
SELECT o.order_id AS order_id, s.ship_id AS ship_id, upper(substr(o.product, 1, 8)) AS family,
       datediff(s.promised, to_date(s.t)) AS days_left, dayofweek(s.promised) AS dow, date_format(s.promised, 'yyyy/MM/dd') AS by_day
FROM orders o, shipments s
WHERE o.order_id = s.order_id AND s.t BETWEEN o.t AND o.t + INTERVAL '5' HOUR
  AND lower(o.product) LIKE 'sku-%' AND s.weight > 4.0
