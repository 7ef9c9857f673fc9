-- source: https://openillumi.com/en/en-pyspark-collect-list-ordered-aggregation
-- asks: The path of ads (in order of time) that a user clicked in the five hours before each order, as text
-- tables: orders, clicks
-- time: o=t, c=t
-- on: tables
-- oracle: spark
SELECT o.order_id AS order_id,
       concat_ws(' > ', transform(sort_array(collect_list(struct(c.t, c.click_id, c.ad_id))), x -> CAST(x.ad_id AS STRING))) AS path,
       count(*) AS steps
FROM orders o JOIN clicks c ON c.usr = o.usr AND c.t < o.t AND c.t >= o.t - INTERVAL 5 HOURS
GROUP BY o.order_id
