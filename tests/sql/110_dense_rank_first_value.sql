-- source: https://naildd.com/blog/how-to-calculate-first-touch-attribution-in-sql
-- asks: Per user the ads ranked by clicks within the hour, and the first clicked ad
-- tables: impressions, clicks
-- time: i=t, c=t
-- on: tables
-- oracle: spark
WITH m AS (
  SELECT i.usr AS usr, c.ad_id AS ad_id, c.click_id AS click_id, c.t AS t
  FROM impressions i JOIN clicks c ON c.ad_id = i.ad_id AND c.usr = i.usr AND c.t BETWEEN i.t AND i.t + INTERVAL 1 HOUR
)
SELECT DISTINCT usr, ad_id, dense_rank() OVER (PARTITION BY usr ORDER BY n DESC, ad_id) AS rnk, first_ad
FROM (SELECT usr, ad_id, count(*) OVER (PARTITION BY usr, ad_id) AS n,
             first_value(ad_id) OVER (PARTITION BY usr ORDER BY t, click_id, ad_id) AS first_ad FROM m)
