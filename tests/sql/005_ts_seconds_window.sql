-- source: https://alibabacloud.com/help/en/flink/developer-reference/intervaljoin-statement
-- asks: Quotes from 10 seconds before to 5 seconds after each trade of the same symbol
-- tables: trades, quotes
-- time: t=t, q=t
-- on: streams
-- oracle: spark
SELECT t.trade_id AS trade_id, q.quote_id AS quote_id, t.sym AS sym, t.px - q.bid AS over_bid, q.ask - t.px AS under_ask
FROM trades t JOIN quotes q
  ON t.sym = q.sym
 AND q.t BETWEEN t.t - INTERVAL '10' SECOND AND t.t + INTERVAL '5' SECOND
