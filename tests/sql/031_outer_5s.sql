-- source: https://github.com/apache/spark/pull/23634
-- asks: Left outer: every big quote with trades within the 5 seconds before it; late side bound by both
-- tables: quotes, trades
-- time: l=t, r=t
-- on: streams
-- oracle: spark
SELECT l.quote_id AS quote_id, r.trade_id AS trade_id, coalesce(r.venue, 'n/a') AS venue
FROM quotes l LEFT JOIN trades r
  ON l.sym = r.sym AND r.t <= l.t AND l.t <= r.t + INTERVAL 5 SECONDS
WHERE l.asize >= 500
