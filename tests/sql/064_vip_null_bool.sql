-- source: https://learn.microsoft.com/fi-fi/azure/stream-analytics/stream-analytics-stream-analytics-query-patterns
-- asks: Only VIP riders (unknown counts as no) and free cabs, in the same minute
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.ping_id AS ping_id, coalesce(r.vip, false) AS vip, NOT c.free AS busy
FROM rides r JOIN cabs c ON date_trunc('MINUTE', r.t) = date_trunc('MINUTE', c.t)
WHERE coalesce(r.vip, false) OR NOT c.free
