-- source: https://qforbeginners.com/knowledge-base/joins/as-of-joins/wj
-- asks: Effective spread in basis points and in whole cents against the quotes of the last 30 seconds
-- tables: trades, quotes
-- time: t=t, q=t
-- on: streams
-- oracle: spark
SELECT t.trade_id AS trade_id, q.quote_id AS quote_id,
       2 * abs(t.px - (q.bid + q.ask) / 2) / ((q.bid + q.ask) / 2) * 10000 AS eff_bps,
       CAST(round((q.ask - q.bid) * 100) AS INT) AS spread_cents
FROM trades t JOIN quotes q
  ON q.sym = t.sym AND q.t <= t.t AND q.t >= t.t - INTERVAL 30 SECONDS
WHERE q.bid IS NOT NULL
