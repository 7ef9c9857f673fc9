-- source: https://luvvhelp.com/learn/Analytics/marketing-analyst/sql/attribution-ready-data-prep
-- asks: Channel (utm_source from the url) of clicks in the two hours before an order of the same user
-- tables: clicks, orders
-- time: c=t, o=t
-- on: streams
-- oracle: spark
SELECT o.order_id AS order_id, c.click_id AS click_id,
       lower(replace(regexp_extract(c.url, 'utm_source=([^&]+)', 1), '+', ' ')) AS channel,
       round(o.amount * 0.1, 2) AS bonus
FROM orders o JOIN clicks c
  ON c.usr = o.usr AND c.t <= o.t AND c.t > o.t - INTERVAL 2 HOURS
WHERE c.url LIKE '%utm_source=%'
