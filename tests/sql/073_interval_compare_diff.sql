-- source: https://www.alibabacloud.com/help/en/flink/realtime-flink/developer-reference/intervaljoin-statement
-- asks: The bound as a difference of timestamps compared to an interval
-- tables: impressions, clicks
-- time: i=t, c=t
-- on: streams
-- oracle: spark
SELECT i.imp_id AS imp_id, c.click_id AS click_id, i.cost * 1000 AS cpm
FROM impressions i JOIN clicks c
  ON i.ad_id = c.ad_id AND i.usr = c.usr
 AND c.t - i.t BETWEEN INTERVAL '0' MINUTE AND INTERVAL '12' MINUTE
WHERE i.cost > 0.01
