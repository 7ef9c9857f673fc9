-- source: https://docs.confluent.io/cloud/current/flink/reference/queries/window-join.html
-- asks: Impressions and clicks of the same user that fall in the same 5 minute tumbling window
-- tables: impressions, clicks
-- time: l=t, r=t
-- on: streams
-- oracle: spark
SELECT l.imp_id AS l_id, r.click_id AS r_id, l.w.start AS window_start, l.w.end AS window_end
FROM (SELECT *, window(t, '5 minutes') AS w FROM impressions) l
JOIN (SELECT *, window(t, '5 minutes') AS w FROM clicks) r
  ON l.usr = r.usr AND l.w = r.w
