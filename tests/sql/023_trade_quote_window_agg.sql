-- source: https://code.kx.com/q/ref/wj/
-- asks: Maximum ask and minimum bid in the two minutes before and one minute after each trade
-- tables: trades, quotes
-- time: t=t, q=t
-- on: streams
-- oracle: spark
SELECT t.trade_id AS trade_id, t.sym AS sym, max(q.ask) AS ask, min(q.bid) AS bid
FROM trades t JOIN quotes q
  ON q.sym = t.sym AND q.t BETWEEN t.t - INTERVAL 2 MINUTES AND t.t + INTERVAL 1 MINUTE
GROUP BY t.trade_id, t.sym
