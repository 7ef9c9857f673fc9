-- source: https://learn.microsoft.com./en-us/stream-analytics-query/join-azure-stream-analytics
-- asks: The bound with dateadd/timestampadd and parts of the date on one side
-- tables: impressions, clicks
-- time: i=t, c=t
-- on: streams
-- oracle: spark
SELECT i.imp_id AS imp_id, c.click_id AS click_id, hour(i.t) AS h, minute(c.t) AS mi, second(c.t) AS se,
       weekday(i.t) AS wd, to_date(i.t) AS d
FROM impressions i JOIN clicks c
  ON c.ad_id = i.ad_id
 AND c.t >= i.t AND c.t <= timestampadd(MINUTE, 4, i.t)
