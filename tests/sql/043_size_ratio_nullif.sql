-- source: https://questdb.com/glossary/temporal-join
-- asks: Order book imbalance of quotes in the minute before a trade, guarding against division by zero
-- tables: trades, quotes
-- time: t=t, q=t
-- on: streams
-- oracle: spark
SELECT t.trade_id AS trade_id, q.quote_id AS quote_id,
       (q.bsize - q.asize) / nullif(q.bsize + q.asize, 0) AS imbalance,
       t.qty * 1.0 / nullif(q.asize, 0) AS taken
FROM trades t JOIN quotes q
  ON q.sym = t.sym AND q.t > t.t - INTERVAL 1 MINUTE AND q.t <= t.t
WHERE t.side = 'B'
