-- source: https://hackernews-dynamic.seasondane.workers.dev/news/48155212
-- asks: Rolling five-minute volume of trades that printed inside the quoted market of the last 45 seconds
-- tables: trades, quotes
-- time: t=t, q=t
-- on: tables
-- oracle: spark
WITH inside AS (
  SELECT DISTINCT t.trade_id AS trade_id, t.sym AS sym, t.qty AS qty, t.t AS t
  FROM trades t JOIN quotes q ON q.sym = t.sym AND q.t BETWEEN t.t - INTERVAL 45 SECONDS AND t.t
   AND t.px BETWEEN q.bid - 1 AND q.ask + 1
)
SELECT trade_id, sym, qty,
       sum(qty) OVER (PARTITION BY sym ORDER BY t RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW) AS vol_5min
FROM inside
