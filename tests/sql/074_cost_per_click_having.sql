-- source: https://github.com/apache/spark/pull/19271
-- asks: Ads per hour with at least two attributed clicks: total cost, cost per click
-- tables: impressions, clicks
-- time: i=t, c=t
-- on: streams
-- oracle: spark
SELECT i.ad_id AS ad_id, window(i.t, '1 hour').start AS hour, count(c.click_id) AS clicks,
       sum(i.cost) AS cost, CAST(sum(i.cost) / count(c.click_id) AS DECIMAL(12, 6)) AS cpc
FROM impressions i JOIN clicks c
  ON i.ad_id = c.ad_id AND i.usr = c.usr AND c.t >= i.t AND c.t < i.t + INTERVAL 1 HOUR
GROUP BY i.ad_id, window(i.t, '1 hour')
HAVING count(c.click_id) >= 2
