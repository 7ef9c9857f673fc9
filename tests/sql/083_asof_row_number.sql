-- source: https://zenn.dev/takikomi/articles/36e8a6fd6063f7
-- asks: The latest quote at or before each trade (at most a minute old), by row_number
-- tables: trades, quotes
-- time: t=t, q=t
-- on: tables
-- oracle: spark
SELECT trade_id, sym, px, bid, ask, age_s
FROM (SELECT t.trade_id AS trade_id, t.sym AS sym, t.px AS px, q.bid AS bid, q.ask AS ask,
             (unix_micros(t.t) - unix_micros(q.t)) / 1000000 AS age_s,
             row_number() OVER (PARTITION BY t.trade_id ORDER BY q.t DESC, q.quote_id DESC) AS rn
      FROM trades t JOIN quotes q
        ON q.sym = t.sym AND q.t <= t.t AND q.t >= t.t - INTERVAL 1 MINUTE)
WHERE rn = 1
