-- source: https://docs.dune.com/query-engine/Functions-and-operators/asof-join
-- asks: The quote a trader could have known: as of one second before the trade, with slippage against the mid price
-- tables: trades, quotes
-- time: t=t, q=t
-- on: tables
-- oracle: duckdb
SELECT t.trade_id AS trade_id, t.sym AS sym, q.quote_id AS quote_id,
       CASE t.side WHEN 'B' THEN t.px - (q.bid + q.ask) / 2 ELSE (q.bid + q.ask) / 2 - t.px END AS slippage
FROM trades t ASOF JOIN (SELECT * FROM quotes WHERE bid IS NOT NULL) q
  ON t.sym = q.sym AND t.t - INTERVAL '1 second' >= q.t
WHERE t.qty >= 50
ORDER BY t.trade_id
