-- source: https://code.kx.com/mediawiki/index.php?title=Reference/wj&diff=next&oldid=1994
-- asks: Volume-weighted mid price per symbol and five minutes over quotes within 20 seconds around trades
-- tables: trades, quotes
-- time: t=t, q=t
-- on: streams
-- oracle: spark
SELECT t.sym AS sym, window(t.t, '5 minutes').start AS w,
       sum((q.bid + q.ask) / 2 * t.qty) / sum(t.qty) AS vw_mid, count(*) AS n
FROM trades t JOIN quotes q
  ON q.sym = t.sym AND abs(CAST(q.t AS DOUBLE) - CAST(t.t AS DOUBLE)) < 20.0
WHERE q.bid IS NOT NULL
GROUP BY t.sym, window(t.t, '5 minutes')
