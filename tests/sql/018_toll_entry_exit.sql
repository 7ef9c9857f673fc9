-- source: https://learn.microsoft.com/en-nz/stream-analytics-query/join-azure-stream-analytics
-- asks: Match two streams when the event of the second follows within 0 to 3 minutes and a coordinate is near
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.ping_id AS ping_id, timestampdiff(MINUTE, r.t, c.t) AS minutes_later
FROM rides r JOIN cabs c
  ON timestampdiff(MINUTE, r.t, c.t) BETWEEN 0 AND 3
 AND c.t >= r.t
 AND c.lon BETWEEN r.lon - 0.01 AND r.lon + 0.01
