-- source: https://github.com/apache/spark/pull/20255
-- asks: Which ad impressions led to a click on the same ad by the same user within an hour?
-- tables: impressions, clicks
-- time: i=t, c=t
-- on: streams
-- oracle: spark
SELECT i.imp_id AS imp_id, c.click_id AS click_id, i.ad_id AS ad_id, i.t AS shown_at, c.t AS clicked_at
FROM impressions i JOIN clicks c
  ON c.ad_id = i.ad_id AND c.usr = i.usr
 AND c.t >= i.t AND c.t <= i.t + INTERVAL 1 HOUR
