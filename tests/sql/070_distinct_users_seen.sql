-- source: https://github.com/r-spark/the-r-in-spark/issues/72
-- asks: Distinct pairs of user and ad with a click within the half hour after the impression
-- tables: impressions, clicks
-- time: i=t, c=t
-- on: streams
-- oracle: spark
SELECT DISTINCT i.usr AS usr, i.ad_id AS ad_id
FROM impressions i JOIN clicks c
  ON c.usr = i.usr AND c.ad_id = i.ad_id AND c.t BETWEEN i.t AND i.t + INTERVAL 30 MINUTES
