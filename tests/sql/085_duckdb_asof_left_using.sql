-- source: https://motherduck.com/glossary/asof-join/
-- asks: ASOF LEFT JOIN with USING, trades without any quote kept
-- tables: trades, quotes
-- time: trades=t, quotes=t
-- on: tables
-- oracle: duckdb
SELECT trades.trade_id AS trade_id, sym, trades.t AS traded_at, quotes.quote_id AS quote_id, coalesce(quotes.bid, 0) AS bid
FROM trades ASOF LEFT JOIN quotes USING (sym, t)
