-- source: https://www.singdata.com/documents/sql_attribution_guide
-- asks: Linear attribution: the amount of each order shared equally by the clicks before it, per ad
-- tables: orders, clicks
-- time: o=t, c=t
-- on: tables
-- oracle: spark
SELECT ad_id, sum(share) AS credit, count(*) AS touches
FROM (SELECT c.ad_id AS ad_id, CAST(o.amount AS DOUBLE) / count(*) OVER (PARTITION BY o.order_id) AS share
      FROM orders o JOIN clicks c ON c.usr = o.usr AND c.t BETWEEN o.t - INTERVAL 5 HOURS AND o.t)
GROUP BY ad_id
ORDER BY credit DESC, ad_id
