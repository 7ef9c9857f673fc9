-- source: https://questdb.com/glossary/time-series-join
-- asks: Trades outside the market: buys above the ask or sells below the bid within plus/minus 15 seconds
-- tables: trades, quotes
-- time: t=t, q=t
-- on: streams
-- oracle: spark
SELECT t.trade_id AS trade_id, q.quote_id AS quote_id, t.side AS side, t.px AS px, q.bid AS bid, q.ask AS ask
FROM trades t JOIN quotes q
  ON t.sym = q.sym
 AND q.t BETWEEN t.t - INTERVAL 15 SECONDS AND t.t + INTERVAL 15 SECONDS
 AND ((t.side = 'B' AND t.px > q.ask) OR (t.side = 'S' AND t.px < q.bid))
