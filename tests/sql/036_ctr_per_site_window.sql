-- source: https://github.com/apache/spark/pull/20255
-- asks: Click-through per site and ten-minute window of the impressions, clicks counted up to 15 minutes later
-- tables: impressions, clicks
-- time: i=t, c=t
-- on: streams
-- oracle: spark
SELECT window(i.t, '10 minutes').start AS win, lower(regexp_replace(i.site, '^www\\.', '')) AS site,
       count(DISTINCT i.imp_id) AS shown, count(DISTINCT c.click_id) AS clicked
FROM impressions i LEFT JOIN clicks c
  ON c.ad_id = i.ad_id AND c.usr = i.usr AND c.t BETWEEN i.t AND i.t + INTERVAL 15 MINUTES
GROUP BY window(i.t, '10 minutes'), lower(regexp_replace(i.site, '^www\\.', ''))
