-- source: https://github.com/duckdb/duckdb/discussions/3207
-- asks: Turn quotes into states [start, stop) with lead and join trades into them by range
-- tables: trades, quotes
-- time: t=t, s=start
-- on: tables
-- oracle: spark
WITH states AS (
  SELECT sym, bid, ask, quote_id, t AS start,
         lead(t, 1, TIMESTAMP '2024-05-06 10:00:00') OVER (PARTITION BY sym ORDER BY t, quote_id) AS stop
  FROM quotes
)
SELECT t.trade_id AS trade_id, s.quote_id AS quote_id, t.px AS px, s.bid AS bid, s.ask AS ask,
       timestampdiff(MILLISECOND, s.start, t.t) AS age_ms
FROM trades t JOIN states s ON s.sym = t.sym AND s.start <= t.t AND t.t < s.stop
